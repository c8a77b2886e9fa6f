use super::*;
use crate::array::{self, Options, Samples};
use std::sync::Arc;

fn floats(values: &[f64]) -> Array {
    let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Array::new("<f8".parse().unwrap(), vec![values.len()], data.into()).unwrap()
}

fn ints(values: &[i32], shape: &[usize]) -> Array {
    let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Array::new("<i4".parse().unwrap(), shape.to_vec(), data.into()).unwrap()
}

fn options(subtype: Option<Subtype>) -> EncodeOptions<'static> {
    EncodeOptions { sample_rate: Some(16_000), subtype, ..EncodeOptions::default() }
}

fn stored(format: Format, array: &Array, subtype: Option<Subtype>) -> (Array, Option<Loss>) {
    let file = encode(format, array, &options(subtype)).unwrap();
    let open = Options { samples: Samples::Stored, ..Options::default() };
    let mut reader = array::open_with(Arc::new(Bytes::from(file.parts.concat())), format, open).unwrap();
    assert_eq!(reader.info().sample_rate(), Some(16_000));
    (reader.read_all().unwrap(), file.loss)
}

fn as_i16(array: &Array) -> Vec<i16> {
    array.data().as_chunks::<2>().0.iter().map(|b| i16::from_le_bytes(*b)).collect()
}

fn as_i32(array: &Array) -> Vec<i32> {
    array.data().as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect()
}

#[test]
fn floats_are_rounded_as_libsndfile_rounds_them() {
    // 4045.43, -0.3 and 0.7 of a step: wav keeps the upper bits, flac rounds.
    let array = floats(&[0.0, -1.0, 1.0, 0.123456789, -0.3 / 32768.0, 0.7 / 32768.0]);
    let (wav, loss) = stored(Format::Wav, &array, None);
    assert_eq!(as_i16(&wav), [0, -32768, 32767, 4045, -1, 0]);
    assert_eq!(loss.map(|l| l.samples), Some(1), "1.0 is a step above what there is");
    let (flac, _) = stored(Format::Flac, &array, None);
    assert_eq!(as_i16(&flac), [0, -32768, 32767, 4045, 0, 1]);
}

#[test]
fn full_scale_24_bits_come_back() {
    let values = [-8_388_608, -1, 0, 1, 8_388_607];
    let array = floats(&values.map(|v| f64::from(v) / 8_388_608.0));
    for format in [Format::Wav, Format::Flac] {
        let (read, loss) = stored(format, &array, Some(Subtype::Pcm24));
        assert_eq!((as_i32(&read), loss), (values.to_vec(), None), "{format}");
    }
}

#[test]
fn what_is_lost_is_told() {
    let array = ints(&[1 << 30 | 1, 1 << 16, -1], &[3]);
    let (read, loss) = stored(Format::Wav, &array, None);
    assert_eq!((as_i16(&read), loss.map(|l| l.samples)), (vec![1 << 14, 1, -1], Some(2)));
    let (read, loss) = stored(Format::Wav, &array, Some(Subtype::Pcm32));
    assert_eq!((read, loss), (array, None));
    let over = floats(&[1.5, -1.5, 0.5]);
    let loss = encode(Format::Flac, &over, &options(None)).unwrap().loss.unwrap();
    assert_eq!((loss.samples, loss.largest > 0.5 && loss.largest < 0.51), (2, true));
    assert!(loss.to_string().contains("2 samples"), "{loss}");
    let odd = floats(&[f64::NAN, f64::INFINITY, -1.0]);
    assert!(encode(Format::Wav, &odd, &options(None)).unwrap_err().to_string().contains("sample 0 is NaN"));
    let lossy = encode(Format::Wav, &odd, &EncodeOptions { lossy: true, ..options(None) }).unwrap();
    assert_eq!(lossy.loss.unwrap().largest, f64::INFINITY);
    assert_eq!(lossy.parts.concat()[44..], [0, 0, 0xff, 0x7f, 0, 0x80]);
    for subtype in [Subtype::Float, Subtype::Double] {
        let (read, loss) = stored(Format::Wav, &floats(&[1.5, f64::INFINITY]), Some(subtype));
        assert_eq!((loss, read.dtype().itemsize()), (None, if subtype == Subtype::Float { 4 } else { 8 }));
    }
}

#[test]
fn frames_and_channels_are_kept() {
    let array = ints(&(0..202).map(|v| v << 16).collect::<Vec<_>>(), &[101, 2]);
    for format in [Format::Wav, Format::Flac] {
        let (read, loss) = stored(format, &array, None);
        assert_eq!((read.shape(), loss), (&[101, 2][..], None));
        assert_eq!(as_i16(&read), (0..202).collect::<Vec<i16>>());
    }
    let mono = ints(&(0..101).map(|v| v << 8).collect::<Vec<_>>(), &[101]);
    let (read, _) = stored(Format::Wav, &mono, Some(Subtype::Pcm24)); // 303 bytes and a pad byte.
    assert_eq!(as_i32(&read), (0..101).collect::<Vec<_>>());
    let empty = floats(&[]);
    assert_eq!(stored(Format::Wav, &empty, None).0.shape(), [0]);
    for format in [Format::Flac, Format::Ogg] {
        assert!(encode(format, &empty, &options(None)).unwrap_err().to_string().contains("empty"));
    }
}

#[test]
fn ogg_holds_about_the_same() {
    let tone: Vec<f64> = (0..40_000).map(|i| (f64::from(i) * 0.05).sin() * 0.5).collect();
    let file = encode(Format::Ogg, &floats(&tone), &options(None)).unwrap();
    assert_eq!(file, encode(Format::Ogg, &floats(&tone), &options(None)).unwrap(), "the same array gives the same file");
    let read = array::open(Arc::new(Bytes::from(file.parts.concat())), Format::Ogg).unwrap().read_all().unwrap();
    assert_eq!(read.shape(), [40_000]);
    let square = read.data().as_chunks::<8>().0.iter().zip(&tone).map(|(b, x)| (f64::from_le_bytes(*b) - x).powi(2));
    let rms = (square.sum::<f64>() / 40_000.0).sqrt();
    assert!(rms < 0.02, "{rms}");
    let changes = read.data().as_chunks::<8>().0.iter().zip(&tone).map(|(b, x)| (f64::from_le_bytes(*b) - x).abs());
    let changes: Vec<f64> = changes.filter(|change| *change >= 1.0 / 32768.0).collect();
    let loss = file.loss.unwrap();
    assert_eq!((loss.samples, loss.bits), (changes.len() as u64, None));
    assert_eq!(loss.largest, changes.iter().fold(0.0, |a: f64, b| a.max(*b)));
    assert!(loss.largest > 1e-3 && loss.to_string().contains("Vorbis"), "{loss}");
    let lossy = encode(Format::Ogg, &floats(&tone), &EncodeOptions { lossy: true, ..options(None) }).unwrap();
    assert_eq!((lossy.parts, lossy.loss), (file.parts, None));
    assert_eq!(encode(Format::Ogg, &floats(&[0.0; 3000]), &options(None)).unwrap().loss, None);
}

#[test]
fn arrays_that_lie_on_their_side_and_what_formats_have_not_are_refused() {
    let side = ints(&[0; 2000], &[2, 1000]);
    for format in [Format::Wav, Format::Flac, Format::Ogg] {
        let e = encode(format, &side, &options(None)).unwrap_err();
        assert!(e.to_string().contains("(2, 1000)") || e.to_string().contains("[2, 1000]"), "{e}");
        let e = encode(format, &ints(&[0; 8], &[2, 2, 2]), &options(None)).unwrap_err();
        assert!(e.to_string().contains("[2, 2, 2]"), "{e}");
        let e = encode(format, &floats(&[0.0]), &EncodeOptions::default()).unwrap_err();
        assert!(e.to_string().contains("sample rate"), "{e}");
        let u8s = Array::new("|u1".parse().unwrap(), vec![1], vec![1].into()).unwrap();
        assert!(encode(format, &u8s, &options(None)).unwrap_err().to_string().contains("uint8"));
    }
    let fast = EncodeOptions { sample_rate: Some(1_000_000), ..EncodeOptions::default() };
    for format in [Format::Flac, Format::Ogg] {
        assert!(encode(format, &floats(&[0.0]), &fast).unwrap_err().to_string().contains("1000000 Hz"));
    }
    assert!(encode(Format::Wav, &floats(&[0.0]), &fast).is_ok());
    assert!(encode(Format::Flac, &floats(&[0.0]), &options(Some(Subtype::Float))).unwrap_err().to_string().contains("FLOAT"));
}

#[test]
fn flac_has_every_rate_channel_and_width_of_the_format() {
    let values: Vec<i32> =
        (0..5000 * 8).map(|i| (f64::from(i % 5000) * 0.03).sin().mul_add(2e9, f64::from(i % 7)) as i32).collect();
    for rate in [1, 8_000, 65_537, 96_000, 96_001, 176_400, 192_000, 250_000, 655_350] {
        for (channels, subtype) in [(1, Subtype::PcmS8), (2, Subtype::Pcm16), (8, Subtype::Pcm24)] {
            let array = ints(&values[..5000 * channels], &[5000, channels]);
            let options = EncodeOptions { sample_rate: Some(rate), lossy: true, subtype: Some(subtype), name: "x" };
            let file = encode(Format::Flac, &array, &options).unwrap().parts.concat();
            let known =
                encode(Format::Flac, &array, &EncodeOptions { sample_rate: Some(8_000), ..options }).unwrap().parts.concat();
            assert!(file.len() < known.len() + 20, "{rate} Hz: {} bytes, {} at 8000 Hz", file.len(), known.len());
            let mut reader = array::open(Arc::new(Bytes::from(file)), Format::Flac).unwrap();
            assert_eq!(reader.info().sample_rate(), Some(rate));
            let known = array::open(Arc::new(Bytes::from(known)), Format::Flac).unwrap().read_all().unwrap();
            assert_eq!(reader.read_all().unwrap(), known, "{rate} Hz, {channels} channels, {subtype}");
        }
    }
}

#[test]
fn a_rate_of_more_than_31_bits_is_not_written() {
    for format in [Format::Wav, Format::Flac, Format::Ogg] {
        let options = EncodeOptions { sample_rate: Some(1 << 31), ..EncodeOptions::default() };
        let e = encode(format, &floats(&[0.5; 64]), &options).unwrap_err();
        assert!(e.to_string().contains("2147483648 Hz"), "{e}");
    }
    let options = EncodeOptions { sample_rate: Some((1 << 31) - 1), ..EncodeOptions::default() };
    encode(Format::Wav, &floats(&[0.5; 64]), &options).unwrap();
}
