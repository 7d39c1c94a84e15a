//! A file of single objects, as histograms, whose bytes the caller makes.

use std::collections::HashSet;
use std::path::Path;

use branchline_format::compress::Setting;
use branchline_format::write::classes::histogram_infos;
use branchline_format::write::FileFrame;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::columns::ROOT_VERSION;
use crate::write::new_file::{mark_uuid, NewFile, ObjectName, TOP};
use crate::write::output::Output;

/// An object of such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// Its class: TH1D, TH2D, TH3D or TProfile, which the file's streamer infos describe.
    pub class_name: String,
    /// Its name, after which it is found.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its bytes as ROOT streams it: from its own byte count on, without any reference to another object.
    pub bytes: Vec<u8>,
}

/// Such a file that is being written. It has its name when it is finished; dropped before, nothing is left of it.
pub struct ObjectsFile {
    file: NewFile,
    date: u32,
    paths: HashSet<String>,
}

impl ObjectsFile {
    /// Begins a file that is compressed as `setting` says; `date` is when, as TDatime packs it.
    pub fn create(path: &Path, replace: bool, setting: Setting, date: u32) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut uuid = xxh3_128(format!("{name} {date}").as_bytes()).to_be_bytes();
        mark_uuid(&mut uuid);
        let frame = FileFrame { name, date, uuid, root_version: ROOT_VERSION, compress: setting.as_root() };
        let output = Output::create(path, replace, &[])?;
        Ok(Self { file: NewFile::begin(output, frame)?, date, paths: HashSet::new() })
    }

    /// Writes an object into a directory, which is made with those around it where it is not there yet.
    pub fn add(&mut self, directories: &[String], object: NewObject) -> Result<()> {
        let path = [directories, std::slice::from_ref(&object.name)].concat().join("/");
        if !self.paths.insert(path.clone()) {
            return Err(self.refused(&format!("there are two objects {path}")));
        }
        if self.file.directory(&path).is_some() {
            return Err(self.refused(&format!("{path} is a directory, not an object")));
        }
        let directory = self.directory(directories)?;
        let NewObject { class_name, name, title, bytes } = object;
        let object_name = ObjectName { class_name, name, title, date: self.date, cycle: 1 };
        let place = self.file.reserve(directory);
        self.file.write_object(place, &object_name, |_| Ok(bytes))
    }

    fn directory(&mut self, names: &[String]) -> Result<usize> {
        let (mut directory, mut path) = (TOP, String::new());
        for name in names {
            path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            if self.paths.contains(&path) {
                return Err(self.refused(&format!("{path} is an object, not a directory")));
            }
            directory = match self.file.directory(&path) {
                Some(known) => known,
                None => {
                    let class_name = "TDirectoryFile".to_string();
                    let object_name =
                        ObjectName { class_name, name: name.clone(), title: name.clone(), date: self.date, cycle: 1 };
                    self.file.add_directory(directory, &path, object_name)?
                }
            };
        }
        Ok(directory)
    }

    /// Writes what stands around the objects and gives the file its name. Returns its bytes.
    pub fn finish(mut self) -> Result<u64> {
        let path = self.path();
        let infos = |key_size| histogram_infos(key_size).map_err(|error| ReadError::from_format(&path, &error));
        let size_bytes = self.file.finish(infos)?;
        self.file.into_output().publish()?;
        Ok(size_bytes)
    }

    fn path(&mut self) -> String {
        self.file.output().path().display().to_string()
    }

    fn refused(&mut self, message: &str) -> ReadError {
        ReadError::new(ReadErrorKind::Output, &self.path(), message)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn object(name: &str) -> NewObject {
        NewObject { class_name: "TH1D".to_string(), name: name.to_string(), title: String::new(), bytes: vec![0; 8] }
    }

    #[test]
    fn an_object_and_a_directory_have_different_paths() {
        let folder = std::env::temp_dir().join(format!("branchline-objects-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut file = ObjectsFile::create(&folder.join("a.root"), false, Setting::NONE, 0).unwrap();
        file.add(&["a".to_string(), "b".to_string()], object("h")).unwrap();
        for (directories, name) in [(vec![], "a"), (vec!["a".to_string()], "b")] {
            let error = file.add(&directories, object(name)).unwrap_err();
            assert!(error.message.contains("is a directory"), "{error}");
        }
        assert!(file.add(&["a".to_string(), "b".to_string(), "h".to_string()], object("i")).is_err());
        drop(file);
        fs::remove_dir_all(folder).unwrap();
    }
}
