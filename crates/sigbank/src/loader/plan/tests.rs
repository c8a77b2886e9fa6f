use super::super::order::Shuffle;
use super::*;
use crate::layout::Units;
use std::collections::BTreeMap;

fn order(counts: &[u64], shuffle: Shuffle) -> Order {
    Order::new(Units::from_counts(counts.iter().copied()).into(), None, shuffle, 4).unwrap()
}

#[test]
fn tasks_cover_the_positions_wanted_as_the_order_says() {
    let counts = [9, 0, 1, 40, 17, 3];
    for shuffle in
        [Shuffle::None, Shuffle::Buffer(1), Shuffle::Buffer(10), Shuffle::Buffer(31), Shuffle::Buffer(500), Shuffle::Global]
    {
        let order = order(&counts, shuffle);
        let all: Vec<_> = (0..3).flat_map(|e| order.epoch(e).collect::<Vec<_>>()).collect();
        for way in [Way::WholeUnits, Way::Slices(1), Way::Slices(7), Way::ByOutput(1), Way::ByOutput(16), Way::ByOutput(1000)] {
            if shuffle == Shuffle::Global && !matches!(way, Way::ByOutput(_)) {
                continue;
            }
            for (start, end) in [(0, 210), (0, 70), (5, 6), (33, 100), (69, 141), (70, 70), (139, 203)] {
                let mut got = BTreeMap::new();
                for task in Plan::new(order.clone(), way, start, end) {
                    assert!(!task.records.is_empty() && task.records.len() == task.positions.len());
                    assert!(task.records.is_sorted_by(|a, b| a < b), "{task:?}");
                    for (&record, &position) in task.records.iter().zip(&task.positions) {
                        assert_eq!(got.insert(position, (task.unit, record)), None);
                    }
                }
                let want: BTreeMap<_, _> = (start..end).map(|p| (p, all[p as usize])).collect();
                assert_eq!(got, want, "{shuffle:?} {way:?} {start}..{end}");
            }
        }
    }
}

#[test]
fn it_is_lazy_and_starts_late_in_a_long_run() {
    let order = order(&[1 << 30, 1 << 20], Shuffle::Buffer(1000));
    let start = 5_000_000 * order.records() + (1 << 29);
    for way in [Way::Slices(100), Way::ByOutput(100)] {
        let mut plan = Plan::new(order.clone(), way, start, u64::MAX);
        let mut needed: Vec<u64> = (0..20).flat_map(|_| plan.next().unwrap().positions).collect();
        needed.sort_unstable();
        assert!(needed[0] == start && needed[99] < start + 600, "{:?}", &needed[..100]);
    }
}

#[test]
fn slices_stay_near_their_need() {
    let order = order(&[300, 200], Shuffle::Buffer(50));
    let mut done = std::collections::HashSet::new();
    let mut front = 0;
    for task in Plan::new(order.clone(), Way::Slices(8), 0, 1500) {
        let last = task.positions.iter().max().copied().unwrap();
        assert!(last < front + order.spread() + 8, "task up to {last} at {front}");
        done.extend(task.positions);
        while done.remove(&front) {
            front += 1;
        }
    }
    assert_eq!(front, 1500);
}
