//! Compression settings: a codec and a level, parsed from a string such as `zstd:5` or from ROOT's integer code.

use std::fmt;
use std::str::FromStr;

use super::Codec;

/// Maximum compression level of every codec.
pub const LEVEL_MAX: u8 = 9;

/// A codec and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    codec: Codec,
    level: u8,
}

impl Setting {
    /// No compression.
    pub const NONE: Self = Self { codec: Codec::None, level: 0 };

    /// Create a setting from a codec that Branchline can write and a level from 1 to 9. Level 0 means no compression.
    /// None for other codecs and levels.
    pub fn new(codec: Codec, level: u8) -> Option<Self> {
        codec.default_level()?;
        match (codec, level) {
            (Codec::None, _) | (_, 0) => Some(Self::NONE),
            (_, 1..=LEVEL_MAX) => Some(Self { codec, level }),
            _ => None,
        }
    }

    /// Convert ROOT's integer code, 100 * algorithm + level (TFile::fCompress, TBranch::fCompress). None if the
    /// algorithm is unknown.
    pub fn of_root(number: i64) -> Option<Self> {
        let level = u8::try_from(number.checked_rem(100)?).ok()?;
        let codec = match number / 100 {
            // Algorithm 0 is ROOT's global algorithm, which is zlib unless the program changes it.
            0 => Codec::Zlib,
            algorithm => Codec::ALL.iter().copied().find(|codec| i64::from(codec.root_number()) == algorithm)?,
        };
        Self::new(codec, level.min(LEVEL_MAX))
    }

    /// ROOT's integer code of the setting, 100 * algorithm + level.
    pub fn as_root(self) -> i32 {
        100 * i32::from(self.codec.root_number()) + i32::from(self.level)
    }

    /// The codec.
    pub fn codec(self) -> Codec {
        self.codec
    }

    /// The level, from 1 (fastest) to 9 (smallest); 0 for no compression.
    pub fn level(self) -> u8 {
        self.level
    }
}

/// Formats the string that [`FromStr`] parses.
impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.codec {
            Codec::None => out.write_str("none"),
            codec => write!(out, "{}:{}", codec.name(), self.level),
        }
    }
}

/// Error for a string that is not a valid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid compression {0:?}; choose one of {list}, with a level from 1 to {max}, or a number such as 505",
    list = default_settings(),
    max = LEVEL_MAX
)]
pub struct InvalidSetting(String);

/// Comma-separated codecs that can be written, each with the level that ROOT recommends.
fn default_settings() -> String {
    let settings = Codec::ALL.iter().filter_map(|codec| Setting::new(*codec, codec.default_level()?));
    settings.map(|setting| setting.to_string()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Setting {
    type Err = InvalidSetting;

    /// Parse `zstd:5`, a codec name (with ROOT's recommended level), `none`, or ROOT's integer code such as `505`.
    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let fail = || InvalidSetting(text.to_string());
        if let Ok(number) = text.parse() {
            return Self::of_root(number).ok_or_else(fail);
        }
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level.parse::<u8>().map_err(|_| fail())?)),
            None => (text, None),
        };
        let name = name.to_ascii_lowercase();
        let codec = Codec::ALL.iter().copied().find(|codec| codec.name() == name).ok_or_else(fail)?;
        if codec == Codec::None && level.is_some() {
            return Err(fail());
        }
        level.or(codec.default_level()).and_then(|level| Self::new(codec, level)).ok_or_else(fail)
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
    fn a_codec_alone_has_the_level_that_root_recommends() {
        for (words, number) in [("zlib", 101), ("lzma", 207), ("lz4", 404), ("zstd", 505), ("none", 0)] {
            assert_eq!(words.parse::<Setting>().map(Setting::as_root), Ok(number));
        }
    }

    #[test]
    fn a_refusal_names_all_codecs_that_are_written() {
        let refusal = "gzip".parse::<Setting>().unwrap_err().to_string();
        assert!(refusal.contains("choose one of none, zlib:1, lzma:7, lz4:4, zstd:5, with"), "{refusal}");
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for words in [
            "",
            "zstd:",
            "zstd:10",
            "gzip",
            "old cs",
            "old CS",
            "none:1",
            "zstd:-1",
            "305",
            "-1",
            "600",
            "9999999999999999999",
        ] {
            assert!(words.parse::<Setting>().is_err(), "{words}");
        }
        assert_eq!(Setting::of_root(i64::MIN), None);
    }
}
