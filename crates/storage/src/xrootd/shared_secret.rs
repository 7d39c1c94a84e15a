//! Login with a secret that the server and the user share (`sss`). The credentials contain user, group and address,
//! encrypted with the shared key.
//!
//! The format is version 1 of XRootD's `sss` protocol, which later servers also accept.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use blowfish::cipher::generic_array::GenericArray;
use blowfish::cipher::{BlockEncrypt, KeyInit};
use blowfish::Blowfish;

use crate::limits::KEYS_BYTES_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::small_file::read_small;
use crate::servers::tls;
use crate::StorageErrorKind;

/// Start of the protocol's timestamps, in Unix time.
const EPOCH_S: u64 = 1_222_183_880;
/// Minimum number of bytes that are encrypted; shorter credentials are filled with random bytes.
const BYTES_MIN: usize = 128;
// Types of fields in the credentials.
const NAME: u8 = 1;
const GROUP: u8 = 4;
const RANDOM: u8 = 7;
const ADDRESS: u8 = 0x20;

/// A key from an `sss` keytab.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: u64,
    created_s: u64,
    secret: Vec<u8>,
}

/// User, group and address of the client.
pub(super) struct UserAndHost<'a> {
    pub(super) user: &'a str,
    pub(super) group: &'a str,
    pub(super) address: SocketAddr,
}

/// Returns the encrypted credentials of a user. `arguments` is sent by the server in the form `0.<seconds>:<keytab>`.
pub(super) fn credentials(arguments: &str, who: &UserAndHost<'_>) -> Result<Vec<u8>> {
    if !arguments.starts_with("0.") {
        return Err(fault("the server requires a cipher other than bf32"));
    }
    let named = arguments.split_once(':').map(|(_, path)| path.trim()).filter(|path| path.starts_with('/'));
    let key = newest_key(named)?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut header = b"sss\0\0\0\x000".to_vec();
    header.extend(key.id.to_be_bytes());
    let mut fields = vec![0; 32];
    random(&mut fields)?;
    fields.extend((now_s.saturating_sub(EPOCH_S) as u32).to_be_bytes());
    fields.extend([0; 4]);
    add_field(&mut fields, NAME, who.user);
    add_field(&mut fields, GROUP, who.group);
    let address = match who.address {
        SocketAddr::V4(address) => format!("[::{}]:{}", address.ip(), address.port()),
        SocketAddr::V6(address) => format!("[{}]:{}", address.ip(), address.port()),
    };
    add_field(&mut fields, ADDRESS, &address);
    if let Some(missing) = BYTES_MIN.checked_sub(fields.len()) {
        let mut filling = vec![0; missing.max(1)];
        random(&mut filling)?;
        // The filling must not start with a zero, because it would be considered an empty string.
        filling[0] |= 1;
        fields.push(RANDOM);
        fields.extend((filling.len() as u16).to_be_bytes());
        fields.extend(filling);
    }
    fields.extend(crc32(&fields).to_be_bytes());
    encrypt(&key.secret, &mut fields)?;
    header.extend(fields);
    Ok(header)
}

/// Appends a field, which consists of a type, a length including the final zero, and a string with a final zero.
fn add_field(fields: &mut Vec<u8>, kind: u8, text: &str) {
    fields.push(kind);
    fields.extend((text.len() as u16 + 1).to_be_bytes());
    fields.extend(text.as_bytes());
    fields.push(0);
}

fn fault(reason: &str) -> Fault {
    Fault::new(StorageErrorKind::Permission, format!("sss: {reason}"))
}

fn random(room: &mut [u8]) -> Result<()> {
    tls::provider().secure_random.fill(room).map_err(|_| fault("the system provides no random numbers"))
}

/// Returns the newest key from the first existing keytab: the file in `XrdSecSSSKT`, the file named by the server, or
/// `~/.xrd/sss.keytab`.
fn newest_key(named: Option<&str>) -> Result<Key> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = set("XrdSecSSSKT").or_else(|| set("XrdSecsssKT"));
    let at_home = set("HOME").map(|home| home.join(".xrd").join("sss.keytab"));
    let tables = [own, named.map(PathBuf::from), at_home];
    let table = tables.into_iter().flatten().find(|table| table.exists());
    let table = table.ok_or_else(|| fault("no keytab found; set XrdSecSSSKT to its path"))?;
    let unusable = |reason: &str| fault(&format!("{} cannot be used: {reason}", table.display()));
    let text = text_of(&table).map_err(|reason| unusable(&reason))?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let keys = text.lines().filter_map(|line| parse_key(line, now_s));
    keys.max_by_key(|key| key.created_s).ok_or_else(|| unusable("all its keys have expired"))
}

/// Reads a keytab. Pipes and devices are refused, since the server may have named any path.
fn text_of(table: &Path) -> std::result::Result<String, String> {
    let bytes = read_small(table, KEYS_BYTES_MAX).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not a text file".to_owned())
}

/// Parses a key in the form `0 u:user g:group n:name N:id c:created e:expires f:flags k:hexadecimal`. Returns None if
/// the key is invalid or has expired.
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

/// Encrypts `bytes` with Blowfish in CFB mode and a zero IV.
fn encrypt(secret: &[u8], bytes: &mut [u8]) -> Result<()> {
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

/// Returns the CRC-32 checksum that Ethernet and zlib use.
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
    use std::fs;

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
    fn a_key_table_that_is_no_file_is_refused_and_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("branchline-keys-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let named = pipe.to_str().unwrap().to_owned();
        let (found, answer) = std::sync::mpsc::channel();
        std::thread::spawn(move || found.send(newest_key(Some(&named)).map_err(|fault| fault.reason)));
        let answer = answer.recv_timeout(std::time::Duration::from_secs(10));
        let _ = fs::remove_dir_all(&folder);
        assert!(answer.unwrap().unwrap_err().contains("it is not a file"));
    }

    #[test]
    fn checksum_and_cipher_are_the_known_ones() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        // The first of the published test vectors: a zero block, encrypted with a zero key.
        let mut block = [0; 8];
        encrypt(&[0; 8], &mut block).unwrap();
        assert_eq!(block, [0x4e, 0xf9, 0x97, 0x45, 0x61, 0x98, 0xdd, 0x78]);
        assert!(encrypt(&[], &mut block).is_err());
    }
}
