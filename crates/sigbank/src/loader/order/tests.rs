use super::*;
use std::collections::HashSet;

fn order(counts: &[u64], shuffle: Shuffle, seed: u64) -> Order {
    Order::new(Units::from_counts(counts.iter().copied()).into(), None, shuffle, seed).unwrap()
}

fn places(n: u64, shuffle: Shuffle, seed: u64, epoch: u64) -> Vec<u32> {
    order(&[n], shuffle, seed).epoch(epoch).map(|(_, index)| index).collect()
}

/// Computed apart from this code, from the module's text; a change is a break of every stored position. The generator's values
/// are SplitMix64's published ones for seed 0.
#[test]
fn the_order_never_changes() {
    let mut rng = Rng(0);
    assert_eq!([rng.next(), rng.next()], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4]);
    assert_eq!(places(12, Shuffle::Buffer(100), 1, 0), GOLDEN_WHOLE);
    assert_eq!(places(16, Shuffle::Buffer(8), 1, 0), GOLDEN_WINDOWS[0]);
    assert_eq!(places(16, Shuffle::Buffer(8), 1, 1), GOLDEN_WINDOWS[1]);
    assert_eq!(places(12, Shuffle::Global, 1, 0), GOLDEN_GLOBAL);
    assert_eq!(places(100_000, Shuffle::Global, 1, 2)[..6], GOLDEN_FEISTEL);
    let units: Vec<_> = order(&[1; 9], Shuffle::Buffer(1), u64::MAX).epoch(3).map(|r| r.0).collect();
    assert_eq!(units, GOLDEN_UNITS);
}

const GOLDEN_WHOLE: [u32; 12] = [7, 10, 11, 8, 2, 1, 9, 4, 5, 0, 6, 3];
const GOLDEN_WINDOWS: [[u32; 16]; 2] =
    [[2, 1, 0, 4, 5, 8, 3, 9, 7, 6, 12, 10, 11, 14, 15, 13], [1, 0, 5, 2, 6, 3, 4, 7, 11, 8, 12, 10, 9, 15, 13, 14]];
const GOLDEN_GLOBAL: [u32; 12] = [7, 5, 0, 9, 11, 6, 3, 2, 1, 8, 4, 10];
const GOLDEN_FEISTEL: [u32; 6] = [277, 64777, 77586, 23803, 20492, 69977];
const GOLDEN_UNITS: [u32; 9] = [5, 2, 8, 4, 7, 1, 3, 6, 0];

/// The definition in the module's text, once more and as plainly as possible.
fn as_described(n: usize, asked: usize, seed: u64, epoch: u64) -> Vec<usize> {
    fn pass(from: Vec<usize>, number: u64, mut bounds: Vec<usize>, seed: u64, epoch: u64) -> Vec<usize> {
        let mut to = vec![0; from.len()];
        bounds.push(from.len());
        for (window, b) in bounds.windows(2).enumerate() {
            let mut moves = Vec::new();
            permute(&mut moves, (b[1] - b[0]) as u64, key(seed, epoch, number, window as u64));
            moves.iter().enumerate().for_each(|(i, &m)| to[b[0] + m as usize] = from[b[0] + i]);
        }
        to
    }
    let h = if asked >= n { n } else { [1, asked.div_ceil(3).max(2)][usize::from(asked > 1)] };
    let first = pass((0..n).collect(), 1, (0..n).step_by(h).collect(), seed, epoch);
    if h == n || h == 1 {
        return if h == 1 { (0..n).collect() } else { first };
    }
    let mut bounds = vec![0];
    bounds.extend((h / 2..n).step_by(h));
    pass(first, 2, bounds, seed, epoch)
}

#[test]
fn it_is_what_the_text_says() {
    for n in [1, 2, 3, 7, 40, 101] {
        for asked in [1, 2, 3, 4, 5, 7, 12, 39, 40, 41, 100, 500] {
            let got: Vec<usize> = places(n as u64, Shuffle::Buffer(asked as u64), 9, 4).iter().map(|&p| p as usize).collect();
            assert_eq!(got, as_described(n, asked, 9, 4), "{n} {asked}");
        }
    }
}

#[test]
fn both_directions_agree_and_every_record_comes_once() {
    for n in [1u64, 2, 5, 64, 999, 70_000, 65_537] {
        for shuffle in [Shuffle::None, Shuffle::Buffer(3), Shuffle::Buffer(50), Shuffle::Buffer(1 << 40), Shuffle::Global] {
            let order = order(&[n / 3, 0, n - n / 3], shuffle, 5);
            let records: Vec<_> = order.epoch(2).collect();
            assert_eq!(records.iter().collect::<HashSet<_>>().len() as u64, n, "{n} {shuffle:?}");
            assert!(records.iter().all(|r| u64::from(r.1) < order.count(r.0 as usize)));
            if shuffle == Shuffle::Global {
                continue;
            }
            let mut stream = Stream::new(&order, 2);
            let units: Vec<_> = (0..3).map(|k| stream.unit(&order, k).unwrap().0).collect();
            let streamed = units.iter().flat_map(|&u| (0..order.count(u as usize) as u32).map(move |i| (u, i)));
            for (input, record) in streamed.enumerate() {
                let output = stream.output(input as u64);
                assert_eq!(records[output as usize], record);
                assert!(stream.first_input(output) <= input as u64);
            }
        }
    }
}

#[test]
fn a_resume_needs_nothing_from_before_its_window() {
    let order = order(&[500], Shuffle::Buffer(40), 1);
    let mut stream = Stream::new(&order, 0);
    let outputs: Vec<_> = (0..500).map(|i| stream.output(i)).collect();
    for from in 0..500 {
        let first = stream.first_input(from);
        assert!(outputs[..first as usize].iter().all(|&o| o < from) && from - first <= 21, "{from} {first}");
    }
}

#[test]
fn neighbours_are_mixed_within_the_bound() {
    for n in [100u64, 1000, 5000] {
        let all = places(20_000, Shuffle::Buffer(n), 11, 0);
        let moved = |(to, &from): (usize, &u32)| (to as f64 - f64::from(from)).abs();
        let mean = all.iter().enumerate().map(moved).sum::<f64>() / 20_000.0;
        let most = all.iter().enumerate().map(moved).fold(0.0, f64::max);
        let h = (n as f64 / 3.0).ceil();
        // The mean distance between a place in h and one in the 2h around it is 13/24 h: 0.18 n.
        assert!((mean / h - 13.0 / 24.0).abs() < 0.02 && most < 1.5 * h && most > 1.2 * h, "{n}: {mean} {most}");
        let adjacent = all.windows(2).filter(|w| w[0].abs_diff(w[1]) == 1).count() as f64;
        assert!(adjacent / 20_000.0 < 4.0 / h, "{n}: {adjacent}");
        // No seam: records also cross the borders of both kinds of windows.
        let crosses = |border: usize| all[..border].iter().filter(|&&from| from as usize >= border).count() as f64;
        assert!(crosses(10 * h as usize) > h / 20.0 && crosses(10 * h as usize + h as usize / 2) > h / 20.0);
    }
}

#[test]
fn seeds_and_epochs_give_independent_orders() {
    let n = 4000;
    for shuffle in [Shuffle::Buffer(u64::MAX), Shuffle::Global] {
        let base = places(n, shuffle, 0, 0);
        for (seed, epoch) in [(0, 1), (1, 0), (1, 1), (u64::MAX, 7)] {
            let other = places(n, shuffle, seed, epoch);
            let same = base.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 10, "{same} of {n} records stand in the same place");
        }
        assert_eq!(base, places(n, shuffle, 0, 0));
    }
    assert_eq!(places(50, Shuffle::None, 0, 0), places(50, Shuffle::None, 1, 9));
}

/// Chi-squared of where records come from, in 16 parts each way, against its 99.99 % point for 225 degrees of freedom (311).
#[test]
fn a_whole_shuffle_is_uniform() {
    for (n, shuffle) in [(16_000u64, Shuffle::Buffer(16_000)), (16_000, Shuffle::Global), (160_000, Shuffle::Global)] {
        for seed in 0..5 {
            let mut cells = [[0f64; 16]; 16];
            for (to, from) in places(n, shuffle, seed, 0).into_iter().enumerate() {
                cells[to * 16 / n as usize][from as usize * 16 / n as usize] += 1.0;
            }
            let want = n as f64 / 256.0;
            let chi: f64 = cells.iter().flatten().map(|c| (c - want).powi(2) / want).sum();
            assert!(chi < 311.0 && chi > 150.0, "{n} {shuffle:?} {seed}: {chi}");
        }
    }
    // All 24 orders of four records come equally often.
    let mut seen = std::collections::HashMap::new();
    for seed in 0..24_000 {
        *seen.entry(places(4, Shuffle::Buffer(4), seed, 0)).or_insert(0) += 1;
    }
    assert!(seen.len() == 24 && seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
}

#[test]
fn draws_are_unbiased_and_in_range() {
    let mut rng = Rng(3);
    // A quarter of the draws below this bound are rejected; without that every third number would come in half of all cases.
    let n = (1u64 << 63) + (1 << 62);
    let third = (0..30_000).filter(|_| rng.below(n).is_multiple_of(3)).count();
    assert!((9_600..10_400).contains(&third), "{third}");
    assert!((0..1000).all(|_| rng.below(1) == 0 && rng.below(7) < 7));
}

#[test]
fn the_memory_for_mixing_is_about_what_was_asked_for() {
    for (n, want) in [(0, 0), (1, 0), (3, 6), (40, 42), (42, 42), (999, 999), (1000, 1000), (1500, 1500), (5000, 2000)] {
        let order = order(&[600, 400], Shuffle::Buffer(n), 0);
        assert_eq!(order.spread(), want, "{n}");
        // Records that were read, and wait, when the stream is read in order.
        let mut stream = Stream::new(&order, 0);
        let outputs: Vec<_> = (0..1000).map(|i| stream.output(i)).collect();
        let mut waiting = HashSet::new();
        let (mut front, mut most) = (0, 0);
        for &output in &outputs {
            assert!(output - front <= want, "{n}: {output} at {front}");
            waiting.insert(output);
            while waiting.remove(&front) {
                front += 1;
            }
            most = most.max(waiting.len() as u64);
        }
        assert!(most <= want, "{n}: {most}");
    }
}
