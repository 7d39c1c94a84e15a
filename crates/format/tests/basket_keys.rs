//! All basket readers report keys with an invalid size as damage.

use branchline_format::basket::BasketRecord;
use branchline_format::compress::Setting;
use branchline_format::write::BasketTools;

/// An empty basket whose key claims to have `key_size` bytes.
fn record(key_size: u16) -> Vec<u8> {
    let names = b"\x07TBasket\x01b\x01t";
    let size = 26 + names.len() + 19;
    let mut bytes = Vec::new();
    bytes.extend((size as i32).to_be_bytes());
    bytes.extend(2_i16.to_be_bytes()); // key version
    bytes.extend(0_i32.to_be_bytes()); // object size
    bytes.extend(0_u32.to_be_bytes()); // date
    bytes.extend(key_size.to_be_bytes());
    bytes.extend(1_i16.to_be_bytes()); // cycle
    bytes.extend([0; 8]); // offsets of the record and its directory
    bytes.extend(names);
    bytes.extend(2_i16.to_be_bytes()); // basket version
    bytes.extend(100_i32.to_be_bytes()); // buffer size
    bytes.extend(4_i32.to_be_bytes()); // entry size
    bytes.extend(0_i32.to_be_bytes()); // number of entries
    bytes.extend(i32::from(key_size).to_be_bytes()); // end of the data
    bytes.push(0);
    assert_eq!(bytes.len(), size);
    bytes
}

#[test]
fn a_key_that_ends_within_the_head_of_its_basket_is_damage() {
    let whole = record(57);
    assert_eq!(whole.len(), 57);
    assert_eq!(BasketRecord::of(&whole).unwrap().entries_count(), 0);
    assert!(BasketTools::new().recompress(&whole, 0, Setting::NONE).is_ok());
    for key_size in [0, 3, 26, 56] {
        let short = record(key_size);
        let error = BasketRecord::of(&short).err().unwrap().to_string();
        assert!(error.contains("ends inside the basket header"), "{error}");
        assert!(BasketTools::new().recompress(&short, 0, Setting::NONE).is_err());
    }
}
