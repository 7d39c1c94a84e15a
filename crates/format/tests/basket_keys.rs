//! Keys of baskets that say what cannot be are damage, whoever reads the basket.

use branchline_format::basket::BasketRecord;
use branchline_format::compress::Setting;
use branchline_format::write::BasketTools;

/// A basket of no entries and no bytes, whose key says that it has `key_size` bytes.
fn record(key_size: u16) -> Vec<u8> {
    let names = b"\x07TBasket\x01b\x01t";
    let size = 26 + names.len() + 19;
    let mut bytes = Vec::new();
    bytes.extend((size as i32).to_be_bytes());
    bytes.extend(2_i16.to_be_bytes()); // the version of the key
    bytes.extend(0_i32.to_be_bytes()); // bytes of the object
    bytes.extend(0_u32.to_be_bytes()); // its date
    bytes.extend(key_size.to_be_bytes());
    bytes.extend(1_i16.to_be_bytes()); // its cycle
    bytes.extend([0; 8]); // where it and its directory are
    bytes.extend(names);
    bytes.extend(2_i16.to_be_bytes()); // the version of the basket
    bytes.extend(100_i32.to_be_bytes()); // bytes of its buffer
    bytes.extend(4_i32.to_be_bytes()); // bytes of an entry
    bytes.extend(0_i32.to_be_bytes()); // its entries
    bytes.extend(i32::from(key_size).to_be_bytes()); // the end of its data
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
        assert!(error.contains("ends within the head of its basket"), "{error}");
        assert!(BasketTools::new().recompress(&short, 0, Setting::NONE).is_err());
    }
}
