"""Servers on loopback that the tests of object storage run against, and a proxy that makes them slow or faulty.

`python -m servers --s3 --azure --gcs --http DIR --proxy s3` starts what is asked for, prints one line of JSON and serves until
its standard input closes. Tests in Python use `servers.client`; nothing here is part of the package that is installed.
"""
