"""Search by what is said of records, in one language for all layouts: see `sigbank.jbof.DataSet.find` for it.

>>> table = Table.from_json([("a", '{"snr": 3}'), ("b", '{"snr": 12.5}')])
>>> table.find("snr > 10")
['b']
>>> check_expression("snr=3 or not(snr<1)")
'snr == 3 or not snr < 1'
"""

from ._native import MetadataTable as Table, check_expression

__all__ = ["Table", "check_expression"]
