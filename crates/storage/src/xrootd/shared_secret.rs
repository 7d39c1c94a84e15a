//! Logins by a secret that server and user share (`sss`): what we are, enciphered with a key of both.
//!
//! The form is that of XRootD's protocol `sss` in its first version, which later servers take, too.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use blowfish::cipher::generic_array::GenericArray;
use blowfish::cipher::{BlockEncrypt, KeyInit};
use blowfish::Blowfish;

use crate::fault::{Fault, Result};
use crate::limits::KEYS_BYTES_MAX;
use crate::{tls, StorageErrorKind};

/// Times are counted from here.
const EPOCH_S: u64 = 1_222_183_880;
/// The least number of bytes that are encrypted.
const BYTES_MIN: usize = 128;
/// Kinds of fields in the credentials.
const NAME: u8 = 1;
const GROUP: u8 = 4;
const RANDOM: u8 = 7;
const ADDRESS: u8 = 0x20;

/// A key of a key table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: u64,
    created_s: u64,
    secret: Vec<u8>,
}

/// The user and the host.
pub(super) struct Speaker<'a> {
    pub(super) user: &'a str,
    pub(super) group: &'a str,
    pub(super) address: SocketAddr,
}

/// The credentials for a server with these arguments: `0.<seconds>:<key table>`.
pub(super) fn credentials(arguments: &str, speaker: &Speaker<'_>) -> Result<Vec<u8>> {
    if !arguments.starts_with("0.") {
        return Err(fault("the server wants another cipher than bf32"));
    }
    let named = arguments.split_once(':').map(|(_, path)| path.trim()).filter(|path| path.starts_with('/'));
    let key = newest_key(named)?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut header = b"sss\0\0\0\x000".to_vec();
    header.extend(key.id.to_be_bytes());
    let mut said = vec![0; 32];
    random(&mut said)?;
    said.extend((now_s.saturating_sub(EPOCH_S) as u32).to_be_bytes());
    said.extend([0; 4]);
    say(&mut said, NAME, speaker.user);
    say(&mut said, GROUP, speaker.group);
    let address = match speaker.address {
        SocketAddr::V4(address) => format!("[::{}]:{}", address.ip(), address.port()),
        SocketAddr::V6(address) => format!("[{}]:{}", address.ip(), address.port()),
    };
    say(&mut said, ADDRESS, &address);
    if let Some(missing) = BYTES_MIN.checked_sub(said.len()) {
        let mut filling = vec![0; missing.max(1)];
        random(&mut filling)?;
        // A string that starts with its end would be none.
        filling[0] |= 1;
        said.push(RANDOM);
        said.extend((filling.len() as u16).to_be_bytes());
        said.extend(filling);
    }
    said.extend(crc32(&said).to_be_bytes());
    encipher(&key.secret, &mut said)?;
    header.extend(said);
    Ok(header)
}

/// Kind, length with the final zero, and the text.
fn say(said: &mut Vec<u8>, kind: u8, words: &str) {
    said.push(kind);
    said.extend((words.len() as u16 + 1).to_be_bytes());
    said.extend(words.as_bytes());
    said.push(0);
}

fn fault(reason: &str) -> Fault {
    Fault::new(StorageErrorKind::Permission, format!("sss: {reason}"))
}

fn random(room: &mut [u8]) -> Result<()> {
    tls::provider().secure_random.fill(room).map_err(|_| fault("there is nothing random to be had"))
}

/// The newest key of `XrdSecSSSKT`, of the table that the server names, or of `.xrd/sss.keytab` at home.
fn newest_key(named: Option<&str>) -> Result<Key> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = set("XrdSecSSSKT").or_else(|| set("XrdSecsssKT"));
    let at_home = set("HOME").map(|home| home.join(".xrd").join("sss.keytab"));
    let tables = [own, named.map(PathBuf::from), at_home];
    let table = tables.into_iter().flatten().find(|table| table.exists());
    let table = table.ok_or_else(|| fault("there is no key table; XrdSecSSSKT says where yours is"))?;
    let unusable = |reason: &str| fault(&format!("{} cannot be used: {reason}", table.display()));
    let about = fs::metadata(&table).map_err(|error| unusable(&error.to_string()))?;
    if about.len() > KEYS_BYTES_MAX {
        return Err(unusable("it is too large"));
    }
    let text = fs::read_to_string(&table).map_err(|error| unusable(&error.to_string()))?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let keys = text.lines().filter_map(|line| parse_key(line, now_s));
    keys.max_by_key(|key| key.created_s).ok_or_else(|| unusable("it has no key that is still good"))
}

/// A line `0 u:user g:group n:name N:id c:created e:expires f:flags k:hexadecimal`; None for one that has expired.
fn parse_key(line: &str, now_s: u64) -> Option<Key> {
    let mut words = line.split_ascii_whitespace();
    if !matches!(words.next(), Some("0" | "1")) {
        return None;
    }
    let (mut id, mut created_s, mut expires_s, mut secret) = (None, 0, 0, Vec::new());
    for (kind, value) in words.filter_map(|word| word.split_once(':')) {
        match kind {
            "N" => id = value.parse::<i64>().ok().map(|id| id as u64),
            "c" => created_s = value.parse().ok()?,
            "e" => expires_s = value.parse().ok()?,
            "k" => secret = from_hexadecimal(value)?,
            _ => {}
        }
    }
    let is_good = expires_s == 0 || expires_s > now_s;
    Some(Key { id: id?, created_s, secret }).filter(|key| is_good && (4..=56).contains(&key.secret.len()))
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let (pairs, rest) = digits.as_ref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high * 16 + low).collect())
}

/// Blowfish in the mode CFB, from an initial block of zeros.
fn encipher(secret: &[u8], bytes: &mut [u8]) -> Result<()> {
    let cipher: Blowfish = Blowfish::new_from_slice(secret).map_err(|_| fault("the key has a wrong length"))?;
    let mut block = GenericArray::from([0; 8]);
    for part in bytes.chunks_mut(8) {
        cipher.encrypt_block(&mut block);
        for (byte, mask) in part.iter_mut().zip(block.iter_mut()) {
            *byte ^= *mask;
            *mask = *byte;
        }
    }
    Ok(())
}

/// The checksum of Ethernet and zlib.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    !bytes.iter().fold(u32::MAX, |remainder, byte| {
        (0..8).fold(
            remainder ^ u32::from(*byte),
            |bits, _| {
                if bits & 1 == 1 {
                    bits >> 1 ^ POLYNOMIAL
                } else {
                    bits >> 1
                }
            },
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_old_ones_left() {
        let line = "0 u:me g:us n:one N:77 c:5 e:100 f:0 k:00ff10ab";
        assert_eq!(parse_key(line, 99).unwrap(), Key { id: 77, created_s: 5, secret: vec![0, 255, 16, 171] });
        assert_eq!(parse_key(line, 100), None);
        for wrong in ["", "# note", "0 N:1 k:xy", "0 k:00112233", "0 N:1 k:001", "0 N:1 k:00", "0 N:x k:00112233"] {
            assert_eq!(parse_key(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn checksum_and_cipher_are_the_known_ones() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        // The first of the cipher's published vectors: zeros under a key of zeros.
        let mut block = [0; 8];
        encipher(&[0; 8], &mut block).unwrap();
        assert_eq!(block, [0x4e, 0xf9, 0x97, 0x45, 0x61, 0x98, 0xdd, 0x78]);
        assert!(encipher(&[], &mut block).is_err());
    }
}
