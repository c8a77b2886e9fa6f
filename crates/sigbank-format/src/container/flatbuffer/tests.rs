use super::*;
use crate::error::FormatErrorKind;
use flatbuffers::{ForwardsUOffset, TableVerifier, Vector, Verifiable, Verifier, VerifierOptions};
use proptest::prelude::*;

/// A table with one vector of `T` as its first field, as the flatbuffers crate sees it.
struct Node<T>(std::marker::PhantomData<T>);
type Bytes = Node<u8>;
type Example = Node<ForwardsUOffset<Bytes>>;
type Shard = Node<ForwardsUOffset<Example>>;

impl<T: 'static> Verifiable for Node<T>
where
    for<'x> Vector<'x, T>: Verifiable,
{
    fn run_verifier(v: &mut Verifier<'_, '_>, pos: usize) -> Result<(), flatbuffers::InvalidFlatbuffer> {
        let t: TableVerifier<'_, '_, '_> = v.visit_table(pos)?;
        t.visit_field::<ForwardsUOffset<Vector<'_, T>>>("f", 4, false)?.finish();
        Ok(())
    }
}

fn verify(bytes: &[u8]) {
    let options = VerifierOptions { max_tables: 10_000_000, ..Default::default() };
    let mut v = Verifier::new(&options, bytes);
    <ForwardsUOffset<Shard>>::run_verifier(&mut v, 0).unwrap();
}

fn build(records: &[Vec<Vec<u8>>], aligns: Vec<usize>) -> Vec<u8> {
    let mut b = ShardBuilder::new(aligns);
    for r in records {
        b.push(&r.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    }
    b.finish().unwrap().concat()
}

/// The shard in one piece, joined or not.
fn build_whole(records: &[Vec<Vec<u8>>], aligns: Vec<usize>) -> Option<Vec<u8>> {
    let mut b = ShardBuilder::new(aligns);
    for _ in 0..2 {
        b.clear();
        for r in records {
            b.push(&r.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        }
    }
    b.finish_whole().unwrap().map(<[u8]>::to_vec)
}

fn names(m: usize) -> Vec<Attribute> {
    ["a", "b", "c", "d"][..m].iter().map(|n| Attribute { name: n.to_string(), len: None }).collect()
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => prop::collection::vec(any::<u8>(), 0..40), 1 => prop::collection::vec(any::<u8>(), 4090..9000)]
}

proptest! {
    #[test]
    fn what_is_written_is_found(records in (1usize..5).prop_flat_map(|m| prop::collection::vec(prop::collection::vec(value(), m), 0..20))) {
        let m = records.first().map_or(1, Vec::len);
        let aligns: Vec<usize> = [1, 2, 16, 8][..m].to_vec();
        let bytes = build(&records, aligns.clone());
        verify(&bytes);
        let large = records.iter().flatten().any(|v| v.len() >= 4096);
        prop_assert_eq!(build_whole(&records, aligns.clone()), large.then(|| bytes.clone()));
        let all: Vec<u32> = (0..records.len() as u32).collect();
        let fields: Vec<usize> = (0..m).collect();
        let n = records.len() as u64;
        let found = spans(&mut &bytes[..], n, &all, &fields, &names(m)).unwrap();
        for (i, s) in found.iter().enumerate() {
            let want = &records[i / m][i % m];
            prop_assert_eq!(&bytes[s.offset as usize..][..s.len], &want[..]);
            prop_assert_eq!(s.offset as usize % aligns[i % m], 0);
            prop_assert!(want.len() < 4096 || s.offset % 64 == 0);
        }
        prop_assert_eq!(&found, &spans(&mut Blocks::new(&bytes[..], 64 << 10), n, &all, &fields, &names(m)).unwrap());
        prop_assert_eq!(&found, &spans(&mut Prefix::new(&bytes[..], 1 << 31, vec![9]), n, &all, &fields, &names(m)).unwrap());
    }

    #[test]
    fn damage_never_panics(flips in prop::collection::vec((0usize..2000, any::<u8>()), 1..4), cut in 0usize..2000) {
        let mut bytes = build(&vec![vec![vec![7; 300], vec![1, 2]]; 3], vec![2, 1]);
        for (at, x) in flips {
            let n = bytes.len();
            bytes[at % n] ^= x;
        }
        bytes.truncate(cut.max(1));
        let _ = spans(&mut &bytes[..], 3, &[0, 1, 2], &[0, 1], &names(2));
        let _ = spans(&mut Prefix::new(&bytes[..], 1 << 20, vec![]), 3, &[0, 1, 2], &[0, 1], &names(2));
    }
}

#[test]
fn counts_and_attributes_are_compared() {
    let bytes = build(&vec![vec![vec![1, 2], vec![3]]; 2], vec![1, 1]);
    assert_eq!(count(&mut &bytes[..]).unwrap(), 2);
    let e = spans(&mut &bytes[..], 3, &[0], &[0], &names(2)).unwrap_err();
    assert_eq!(
        (e.kind(), e.to_string().contains("holds 2 examples, but its list says 3")),
        (FormatErrorKind::Corrupt, true),
        "{e}"
    );
    let e = spans(&mut &bytes[..], 2, &[1], &[0], &names(3)).unwrap_err();
    assert_eq!(e.to_string(), "example 1: 2 attributes are stored, 3 are declared");
}

#[test]
fn a_prefix_reads_no_more_than_the_tables() {
    let bytes = build(&vec![vec![vec![5; 100_000], vec![3]]; 50], vec![2, 1]);
    let mut p = Prefix::new(&bytes[..], 1 << 31, vec![]);
    let mut attributes = names(2);
    attributes[0].len = Some(100_000);
    attributes[1].len = Some(1);
    let found = spans(&mut p, 50, &(0..50).collect::<Vec<_>>(), &[0, 1], &attributes).unwrap();
    assert_eq!(p.kept().len(), 64 << 10);
    assert!(found.iter().step_by(2).all(|s| s.offset >= 1024 && s.len == 100_000 && !s.checked));
    assert!(found[0].check_word(100_000u32.to_le_bytes()).is_ok());
    assert_eq!(found[0].check_word([1, 0, 0, 0]).unwrap_err().to_string(), "1 bytes are stored, 100000 are expected");
    attributes[1].len = Some(2);
    let e = spans(&mut &bytes[..], 50, &[4], &[1], &attributes).unwrap_err();
    assert_eq!(e.to_string(), "example 4: attribute 'b': 1 bytes are stored, 2 are expected");
}

#[test]
fn the_room_for_a_shard_is_enough_and_not_much_more() {
    for (len, records) in [(4096, 3), (160_000, 40), (5001, 100)] {
        let room = ShardBuilder::room_for(records, &[Some(len), Some(len + 60)]);
        let mut b = ShardBuilder::new(vec![1, 2]).with_room(Vec::with_capacity(room));
        let before = b.memory();
        (0..records).for_each(|_| b.push(&[&vec![1; len], &vec![2; len + 60]]).unwrap());
        assert_eq!(b.memory(), before);
        let taken = b.finish_whole().unwrap().unwrap().len();
        assert!(taken <= room && room <= taken + (256 << 10), "{taken} of {room}");
    }
    assert_eq!(ShardBuilder::room_for(256, &[Some(4095), None]), 0);
}

#[test]
fn a_wrong_number_of_values_is_refused() {
    let mut b = ShardBuilder::new(vec![1, 1]);
    assert_eq!(b.push(&[&[1]]).unwrap_err().to_string(), "1 values for 2 attributes");
    assert!(b.is_empty());
    assert!(!b.fits(usize::MAX));
    assert!(b.fits((1 << 31) - 4096));
}

/// A shard as the reference builds it: back to front, by the flatbuffers crate.
fn build_reversed(records: &[Vec<Vec<u8>>]) -> Vec<u8> {
    use flatbuffers::{FlatBufferBuilder, WIPOffset};
    fn node<'a>(
        b: &mut FlatBufferBuilder<'a>,
        field: WIPOffset<flatbuffers::UnionWIPOffset>,
    ) -> WIPOffset<flatbuffers::TableFinishedWIPOffset> {
        let table = b.start_table();
        b.push_slot_always(4, field);
        b.end_table(table)
    }
    let mut b = FlatBufferBuilder::new();
    let mut examples = Vec::new();
    for record in records {
        let mut attributes = Vec::new();
        for value in record {
            let vector = b.create_vector(value).as_union_value();
            attributes.push(node(&mut b, vector));
        }
        let vector = b.create_vector(&attributes).as_union_value();
        examples.push(node(&mut b, vector));
    }
    let vector = b.create_vector(&examples).as_union_value();
    let root = node(&mut b, vector);
    b.finish_minimal(root);
    b.finished_data().to_vec()
}

/// What streaming finds of some records and fields, record by record; none where the layout is another.
fn streamed(
    bytes: &[u8],
    n: u64,
    records: &[u32],
    fields: &[usize],
    attributes: &[Attribute],
) -> Option<crate::Result<Vec<Vec<Vec<u8>>>>> {
    let mut prefix = Prefix::new(bytes, 1 << 31, vec![]);
    let tables = reversed(&mut prefix, n)?;
    let mut shard = Sliding::new(prefix);
    let mut run = || {
        let mut all = vec![vec![Vec::new(); fields.len()]; records.len()];
        for (row, &record) in records.iter().enumerate().rev() {
            for (table, field) in shard.example(tables[record as usize], fields, attributes)? {
                let span = shard.value(table, &attributes[fields[field]])?;
                let mut value = vec![0; span.len.min(1 << 24)];
                shard.read(&mut value)?;
                all[row][field] = value;
            }
        }
        Ok(all)
    };
    let found = run();
    Some(found.and_then(|all| shard.finish().map(|()| all)))
}

proptest! {
    #[test]
    fn the_references_layout_is_read_as_a_stream(
        records in (1usize..5).prop_flat_map(|m| prop::collection::vec(prop::collection::vec(value(), m), 2..30)),
        step in 1usize..4,
    ) {
        let m = records[0].len();
        let bytes = build_reversed(&records);
        verify(&bytes);
        let n = records.len() as u64;
        let chosen: Vec<u32> = (0..records.len() as u32).step_by(step).collect();
        let fields: Vec<usize> = (0..m).rev().step_by(step).collect();
        let found = streamed(&bytes, n, &chosen, &fields, &names(m)).unwrap().unwrap();
        for (row, &record) in chosen.iter().enumerate() {
            for (i, &field) in fields.iter().enumerate() {
                prop_assert_eq!(&found[row][i], &records[record as usize][field]);
            }
        }
        let spans = spans(&mut Blocks::new(&bytes[..], 0), n, &chosen, &fields, &names(m)).unwrap();
        for (i, s) in spans.iter().enumerate() {
            prop_assert_eq!(&bytes[s.offset as usize..][..s.len], &found[i / fields.len()][i % fields.len()][..]);
        }
    }

    #[test]
    fn a_damaged_stream_never_panics(flips in prop::collection::vec((0usize..4000, any::<u8>()), 0..4), cut in 1usize..4000) {
        let mut bytes = build_reversed(&vec![vec![vec![7; 900], vec![1, 2], vec![]]; 4]);
        for (at, x) in flips {
            let n = bytes.len();
            bytes[at % n] ^= x;
        }
        bytes.truncate(cut);
        let _ = streamed(&bytes, 4, &[0, 2, 3], &[0, 1, 2], &names(3));
    }
}

#[test]
fn a_shard_of_ours_is_no_stream() {
    let bytes = build(&vec![vec![vec![7; 900], vec![1, 2]]; 4], vec![1, 1]);
    assert!(reversed(&mut Prefix::new(&bytes[..], 1 << 31, vec![]), 4).is_none());
    let bytes = build_reversed(&vec![vec![vec![7; 900], vec![1, 2]]; 4]);
    assert!(reversed(&mut Prefix::new(&bytes[..], 1 << 31, vec![]), 5).is_none());
    assert!(reversed(&mut Prefix::new(&bytes[..], 1 << 31, vec![]), 4).is_some());
}
