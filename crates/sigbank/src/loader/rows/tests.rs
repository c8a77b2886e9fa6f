use super::super::FieldSpec;
use super::*;
use crate::error::Code;

fn fields() -> Vec<FieldSpec> {
    vec![
        FieldSpec { name: "a".into(), len: Some(3), about: 0, as_stored: false },
        FieldSpec { name: "b".into(), len: None, about: 0, as_stored: false },
        FieldSpec { name: "c".into(), len: Some(0), about: 0, as_stored: false },
    ]
}

fn rows(n: u32) -> Vec<Option<Arc<Rows>>> {
    vec![Some(Arc::new(Rows::new(&fields(), n, &Pool::new(0)).unwrap()))]
}

static GO: AtomicBool = AtomicBool::new(false);

fn fill(filling: &mut Filling<'_>, row: usize, with: u8) {
    filling.place(row, 0, 3).unwrap().fill(with);
    filling.place(row, 1, usize::from(with)).unwrap().fill(with);
    assert!(filling.place(row, 2, 0).unwrap().is_empty());
}

fn columns(mut batches: Vec<Option<Arc<Rows>>>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let columns = Arc::into_inner(batches.remove(0).unwrap()).unwrap().into_columns();
    let [Column::Fixed(a), Column::Var(b), Column::Fixed(c)] = &columns[..] else { panic!("{columns:?}") };
    assert!(c.is_empty() && a.as_ptr().align_offset(64) == 0);
    (a.to_vec(), b.clone())
}

#[test]
fn rows_are_filled_in_any_order() {
    let (batches, fields) = (rows(3), fields());
    let mut one = Filling::claim(&fields, &batches, vec![(0, 2), (0, 0)], &GO).unwrap();
    let mut two = Filling::claim(&fields, &batches, vec![(0, 1)], &GO).unwrap();
    fill(&mut one, 1, 1);
    fill(&mut two, 0, 2);
    fill(&mut one, 0, 3);
    one.finish().unwrap();
    two.finish().unwrap();
    let (a, b) = columns(batches);
    assert_eq!(a, [1, 1, 1, 2, 2, 2, 3, 3, 3]);
    assert_eq!(b, [vec![1], vec![2; 2], vec![3; 3]]);
}

#[test]
fn a_row_is_claimed_once() {
    let (batches, fields) = (rows(200), fields());
    let claim = |places: &[(u32, u32)]| Filling::claim(&fields, &batches, places.to_vec(), &GO).map(|_| ()).map_err(|e| e.code());
    assert_eq!(claim(&[(0, 3), (0, 70), (0, 4)]), Ok(()));
    assert_eq!(claim(&[(0, 3)]), Err(Code::Invalid));
    assert_eq!(claim(&[(0, 64), (0, 65), (0, 70), (0, 71)]), Err(Code::Invalid));
    assert_eq!(claim(&[(0, 8), (0, 8)]), Err(Code::Invalid), "within one task");
    assert_eq!(claim(&[(0, 9), (0, 100), (0, 9)]), Err(Code::Invalid));
    assert_eq!(claim(&[(1, 0)]), Err(Code::Invalid), "no such batch");
    assert_eq!(claim(&[(0, 1 << 20)]), Err(Code::Invalid), "no such row");
    assert_eq!(claim(&[(0, 10)]), Ok(()));
    assert_eq!(claim(&[(0, 199)]), Ok(()));
    assert_eq!(claim(&[(0, 200)]), Err(Code::Invalid), "the first row past the end");
    assert_eq!(claim(&[(0, 255)]), Err(Code::Invalid));
}

#[test]
fn a_source_that_breaks_its_word_is_found_out() {
    let (batches, fields, go) = (rows(3), fields(), AtomicBool::new(false));
    let mut filling = Filling::claim(&fields, &batches, vec![(0, 0), (0, 1)], &go).unwrap();
    let e = filling.place(1, 0, 4).unwrap_err();
    assert_eq!(e.to_string(), "field 'a' of record 1 of those asked for has 4 bytes, the schema says 3");
    assert!(filling.place(2, 0, 3).is_err() && filling.place(0, 3, 3).is_err());
    assert_eq!(filling.place(0, 1, usize::MAX).unwrap_err().code(), Code::Limit);
    let mut filling = Filling::claim(&fields, &batches, vec![(0, 2)], &go).unwrap();
    filling.place(0, 0, 3).unwrap();
    assert!(filling.place(0, 0, 3).unwrap_err().message().contains("twice"));
    filling.place(0, 2, 0).unwrap();
    assert!(filling.finish().unwrap_err().message().contains("no value of field 'b' for record 0"));
    let (batches, go) = (rows(1), AtomicBool::new(true));
    let mut stopped = Filling::claim(&fields, &batches, vec![(0, 0)], &go).unwrap();
    assert!(stopped.place(0, 0, 3).is_err());
}

#[test]
fn many_threads_fill_one_batch_and_race_for_its_rows() {
    const N: u32 = 3000;
    let fields = fields();
    for round in 0..20 {
        let batches = rows(N);
        let won = std::thread::scope(|scope| {
            let threads = (0..4u32).map(|thread| {
                let (batches, fields) = (&batches, &fields);
                scope.spawn(move || {
                    let mut won = 0;
                    for i in 0..N {
                        // All threads try all rows, by different ways.
                        let row = (i * (2 * thread + 1) + thread * 700 + round) % N;
                        if let Ok(mut filling) = Filling::claim(fields, batches, vec![(0, row)], &GO) {
                            let v = (row % 251) as u8;
                            filling.place(0, 0, 3).unwrap().fill(v);
                            filling.place(0, 1, 2).unwrap().fill(v);
                            filling.place(0, 2, 0).unwrap();
                            filling.finish().unwrap();
                            won += 1;
                        }
                    }
                    won
                })
            });
            threads.collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).sum::<u32>()
        });
        assert_eq!(won, N, "each row was won by one thread");
        let (a, b) = columns(batches);
        for row in 0..N as usize {
            let v = (row % 251) as u8;
            assert_eq!((&a[row * 3..row * 3 + 3], &b[row]), (&[v; 3][..], &vec![v; 2]));
        }
    }
}

#[test]
fn arrays_of_another_type_are_kept_where_they_are_wanted_and_refused_elsewhere() {
    let stored: FieldType = FieldType::Array { dtype: "<f8".parse().unwrap(), shape: vec![2] };
    let strict = vec![FieldSpec { name: "a".into(), len: Some(3), about: 0, as_stored: false }];
    let batches = vec![Some(Arc::new(Rows::new(&strict, 1, &Pool::new(0)).unwrap()))];
    let mut filling = Filling::claim(&strict, &batches, vec![(0, 0)], &GO).unwrap();
    let refused = filling.place_as(0, 0, &stored, 16).unwrap_err();
    assert_eq!(refused.code(), Code::Unsupported);
    assert!(refused.message().starts_with("float64[2] is stored, which is not what is declared"), "{refused}");
    assert!(filling.goes_through_units());
    drop(filling);

    let loose = vec![FieldSpec { name: "a".into(), len: Some(3), about: 0, as_stored: true }];
    let mut batches = vec![Some(Arc::new(Rows::new(&loose, 2, &Pool::new(0)).unwrap()))];
    let mut filling = Filling::claim(&loose, &batches, vec![(0, 1), (0, 0)], &GO).unwrap();
    filling.place_as(0, 0, &stored, 16).unwrap().fill(1);
    assert_eq!(filling.place(1, 0, 4).unwrap_err().code(), Code::Corrupt);
    filling.place(1, 0, 3).unwrap().fill(2);
    filling.finish().unwrap();
    let columns = Arc::into_inner(batches.remove(0).unwrap()).unwrap().into_columns();
    let [Column::Stored(values)] = &columns[..] else { panic!("{columns:?}") };
    assert_eq!(values[0], Stored { ty: None, bytes: vec![2; 3] });
    assert_eq!(values[1], Stored { ty: Some(stored), bytes: vec![1; 16] });
}
