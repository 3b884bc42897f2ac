//! What the head of an audio file says of it: format, channels, rate, length. Pure; never fails,
//! reads only the bytes it is given.

/// A sentence about the audio that begins with `head` and is `total` bytes long; nothing when the
/// format is not known here.
pub(super) fn facts(head: &[u8], total: u64) -> Option<String> {
    if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WAVE") {
        return wav(head, total);
    }
    if head.starts_with(b"fLaC") {
        return flac(head);
    }
    if head.starts_with(b"OggS") {
        return ogg(head);
    }
    mp3(head, total)
}

fn little(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let part = bytes.get(at..at + len)?;
    Some(part.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn sentence(kind: &str, channels: u64, rate: u64, millis: Option<u64>) -> String {
    let channels = match channels {
        1 => "mono".to_owned(),
        2 => "stereo".to_owned(),
        n => format!("{n} channels"),
    };
    let length = millis.map_or_else(String::new, |ms| {
        format!(" · {}:{:02}.{} long", ms / 60_000, ms / 1_000 % 60, ms / 100 % 10)
    });
    format!("{kind} · {channels} · {rate} Hz{length}")
}

fn wav(head: &[u8], total: u64) -> Option<String> {
    let mut at = 12;
    let mut format = None;
    // Chunks follow each other; the format comes before the data.
    for _ in 0..32 {
        let size = little(head, at + 4, 4)?;
        match head.get(at..at + 4)? {
            b"fmt " => {
                let field = |offset, len| little(head, at + 8 + offset, len);
                format = Some((field(2, 2)?, field(4, 4)?, field(8, 4)?, field(14, 2)?));
            }
            b"data" => {
                let (channels, rate, per_second, bits) = format?;
                let size = size.min(total.saturating_sub(at as u64 + 8));
                let millis = (size * 1_000).checked_div(per_second);
                return Some(sentence(&format!("WAV {bits} bit"), channels, rate, millis));
            }
            _ => {}
        }
        at = at.checked_add(usize::try_from(size).ok()?)?.checked_add(8 + (size % 2) as usize)?;
    }
    None
}

fn flac(head: &[u8]) -> Option<String> {
    // STREAMINFO is the first block: rate in 20 bits, channels in 3, depth in 5, samples in 36.
    let bits = head.get(18..26)?.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (rate, channels) = (bits >> 44, (bits >> 41 & 7) + 1);
    let (depth, samples) = ((bits >> 36 & 31) + 1, bits & 0xf_ffff_ffff);
    let millis = (samples * 1_000).checked_div(rate).filter(|_| samples > 0);
    Some(sentence(&format!("FLAC {depth} bit"), channels, rate, millis))
}

fn ogg(head: &[u8]) -> Option<String> {
    let find = |what: &[u8]| head.windows(what.len()).position(|w| w == what);
    if let Some(at) = find(b"\x01vorbis") {
        let channels = u64::from(*head.get(at + 11)?);
        return Some(sentence("Ogg Vorbis", channels, little(head, at + 12, 4)?, None));
    }
    let at = find(b"OpusHead")?;
    Some(sentence("Ogg Opus", u64::from(*head.get(at + 9)?), little(head, at + 12, 4)?, None))
}

/// Kilobits a second of layer III, by the number in a frame's head: MPEG 1, then MPEG 2 and 2.5.
const MPEG1: [u64; 16] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0];
const MPEG2: [u64; 16] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0];

fn mp3(head: &[u8], total: u64) -> Option<String> {
    let mut at = 0;
    if head.starts_with(b"ID3") {
        // Seven bits per byte, so that no frame is found in it.
        let size = head.get(6..10)?.iter().fold(0_usize, |n, b| n << 7 | usize::from(b & 0x7f));
        at = size + 10;
    }
    let frame = head.get(at..at + 4)?;
    let (version, layer) = (frame[1] >> 3 & 3, frame[1] >> 1 & 3);
    if frame[0] != 0xff || frame[1] & 0xe0 != 0xe0 || version == 1 || layer != 1 {
        return None;
    }
    let rates = if version == 3 { MPEG1 } else { MPEG2 };
    let kilobits = rates[usize::from(frame[2] >> 4)];
    let base = *[44_100_u64, 48_000, 32_000].get(usize::from(frame[2] >> 2 & 3))?;
    let rate = match version {
        3 => base,
        2 => base / 2,
        _ => base / 4,
    };
    let channels = if frame[3] >> 6 == 3 { 1 } else { 2 };
    // Exact for a constant rate, near enough for the others.
    let millis = (total.saturating_sub(at as u64) * 8).checked_div(kilobits);
    Some(sentence(&format!("MP3 about {kilobits} kbit/s"), channels, rate, millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A WAV file of `seconds` of silence: mono, 8 kHz, 16 bit.
    fn wav_of(seconds: u32) -> Vec<u8> {
        let mut out = b"RIFF\0\0\0\0WAVEfmt ".to_vec();
        out.extend(16_u32.to_le_bytes());
        for (value, len) in [(1_u32, 2), (1, 2), (8_000, 4), (16_000, 4), (2, 2), (16, 2)] {
            out.extend(&value.to_le_bytes()[..len]);
        }
        out.extend(b"LIST\x02\0\0\0xxdata");
        out.extend((16_000 * seconds).to_le_bytes());
        out.resize(out.len() + 16_000 * seconds as usize, 0);
        out
    }

    #[test]
    fn the_head_of_a_file_tells_how_long_it_is() {
        let wav = wav_of(3);
        let said = facts(&wav[..100], wav.len() as u64);
        assert_eq!(said.as_deref(), Some("WAV 16 bit · mono · 8000 Hz · 0:03.0 long"));
        let mut flac = b"fLaC\0\0\0\x22".to_vec();
        flac.extend([0; 10]);
        let samples = 441_000;
        let bits = (44_100_u64 << 44) | (1 << 41) | (15 << 36) | samples;
        flac.extend(bits.to_be_bytes());
        let said = facts(&flac, 99_999);
        assert_eq!(said.as_deref(), Some("FLAC 16 bit · stereo · 44100 Hz · 0:10.0 long"));
        let said = facts(&[0xff, 0xfb, 0x90, 0x00, 0, 0], 160_000);
        assert_eq!(said.as_deref(), Some("MP3 about 128 kbit/s · stereo · 44100 Hz · 0:10.0 long"));
    }

    #[test]
    fn heads_that_are_cut_or_lie_are_no_facts_and_no_panic() {
        let wav = wav_of(1);
        for end in 0..wav.len().min(80) {
            let _ = facts(&wav[..end], u64::MAX);
        }
        let mut lying = wav;
        lying[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(facts(&lying[..60], 60), None);
        for head in [&b"ID3\x04\0\0\x7f\x7f\x7f\x7f"[..], b"OggS", b"fLaC", b"RIFF1234WAVE", b""] {
            assert_eq!(facts(head, 10), None);
        }
    }
}
