//! Replays the corpus: every target takes its own seeds. `make fuzz` looks for new inputs.

use std::fs;
use std::path::Path;

use branchline_fuzz::targets::TARGETS;

// One test for all targets, because they measure the heap of the process.
#[test]
fn every_target_takes_its_seeds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let mut seeds = 0;
        for seed in fs::read_dir(corpus.join(name)).unwrap() {
            let path = seed.unwrap().path();
            // Shown if the target panics.
            println!("{}", path.display());
            target(&fs::read(&path).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0, "{name} has no seeds: run `python -m fuzz.seeds fuzz/corpus`");
    }
}
