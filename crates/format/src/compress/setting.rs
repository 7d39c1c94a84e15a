//! A codec and a level, as a number of ROOT and as a text such as `zstd:5`.

use std::fmt;
use std::str::FromStr;

use super::Codec;

/// Algorithms of ROOT's compression settings, 100 * algorithm + level (ROOT::RCompressionSetting::EAlgorithm). 0 stands
/// for the global one, which is zlib unless a program changes it.
const ALGORITHMS: [(i64, Codec); 5] =
    [(0, Codec::Zlib), (1, Codec::Zlib), (2, Codec::Lzma), (4, Codec::Lz4), (5, Codec::Zstd)];
/// The highest level of ROOT.
const LEVEL_MAX: u8 = 9;

/// A codec and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    codec: Codec,
    level: u8,
}

impl Setting {
    /// No compression.
    pub const NONE: Self = Self { codec: Codec::None, level: 0 };

    /// A codec that ROOT writes, with a level from 1 to 9; level 0 means no compression. None for other levels and
    /// codecs.
    pub fn new(codec: Codec, level: u8) -> Option<Self> {
        match (codec, level) {
            (Codec::None, _) | (Codec::Zlib | Codec::Lzma | Codec::Lz4 | Codec::Zstd, 0) => Some(Self::NONE),
            (Codec::OldCs, _) => None,
            (_, 1..=LEVEL_MAX) => Some(Self { codec, level }),
            _ => None,
        }
    }

    /// The setting of a number of ROOT, 100 * algorithm + level (TFile::fCompress, TBranch::fCompress). None for an
    /// algorithm that ROOT does not have.
    pub fn of_root(number: i64) -> Option<Self> {
        let level = u8::try_from(number.checked_rem(100)?).ok()?;
        let (_, codec) = ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == number / 100)?;
        Self::new(*codec, level.min(LEVEL_MAX))
    }

    /// ROOT's number for it, 100 * algorithm + level.
    pub fn as_root(self) -> i32 {
        let algorithm = match self.codec {
            Codec::None | Codec::OldCs => 0,
            Codec::Zlib => 1,
            Codec::Lzma => 2,
            Codec::Lz4 => 4,
            Codec::Zstd => 5,
        };
        100 * algorithm + i32::from(self.level)
    }

    /// Its codec.
    pub fn codec(self) -> Codec {
        self.codec
    }

    /// Its level, from 1 for the fastest to 9.
    pub fn level(self) -> u8 {
        self.level
    }
}

/// The text that [`FromStr`] parses.
impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.codec {
            Codec::None => out.write_str("none"),
            codec => write!(out, "{}:{}", codec.name(), self.level),
        }
    }
}

/// A text that is no setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting(String);

impl fmt::Display for InvalidSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(out, "no such codec: {text:?}; one of zstd:5, zlib:1, lz4:4, lzma:8 with a level from 1 to 9, none, ")?;
        out.write_str("or a number of ROOT such as 505")
    }
}

impl std::error::Error for InvalidSetting {}

impl FromStr for Setting {
    type Err = InvalidSetting;

    /// `zstd:5`, a codec alone with the level that ROOT recommends, `none`, or a number of ROOT such as `505`.
    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let fail = || InvalidSetting(text.to_string());
        if let Ok(number) = text.parse() {
            return Self::of_root(number).ok_or_else(fail);
        }
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level.parse::<u8>().map_err(|_| fail())?)),
            None => (text, None),
        };
        // The levels of ROOT::RCompressionSetting::EDefaults.
        let (codec, usual) = match name.to_ascii_lowercase().as_str() {
            "none" if level.is_none() => (Codec::None, 0),
            "zlib" => (Codec::Zlib, 1),
            "lzma" => (Codec::Lzma, 7),
            "lz4" => (Codec::Lz4, 4),
            "zstd" => (Codec::Zstd, 5),
            _ => return Err(fail()),
        };
        Self::new(codec, level.unwrap_or(usual)).ok_or_else(fail)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_of_root_say_the_same() {
        for (words, number) in [("zstd:5", 505), ("zlib:1", 101), ("lz4:4", 404), ("lzma:8", 208), ("none", 0)] {
            let setting: Setting = words.parse().unwrap();
            assert_eq!(setting.as_root(), number);
            assert_eq!(Setting::of_root(i64::from(number)), Some(setting));
            assert_eq!(number.to_string().parse(), Ok(setting));
            assert_eq!(setting.to_string(), words);
        }
        assert_eq!("ZSTD".parse(), Ok(Setting::of_root(505).unwrap()));
        assert_eq!(Setting::of_root(1), Setting::of_root(101), "the global algorithm is zlib");
        assert_eq!(Setting::of_root(400), Some(Setting::NONE));
        assert_eq!(Setting::of_root(199), Setting::of_root(109), "ROOT cuts levels off");
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for words in ["", "zstd:", "zstd:10", "gzip", "none:1", "zstd:-1", "305", "-1", "600", "9999999999999999999"] {
            assert!(words.parse::<Setting>().is_err(), "{words}");
        }
        assert_eq!(Setting::of_root(i64::MIN), None);
    }
}
