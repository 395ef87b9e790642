//! Counts the words of a text in a hash map, sorts them by how often they come, and hashes the table: what the standard library gives. Its maps are
//! seeded at random, by getrandom(2).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

fn counts(text: &str) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for word in text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_ascii_lowercase()).or_default() += 1;
    }
    counts
}

#[inline(never)]
fn checksum(table: &[(String, u32)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    table.hash(&mut hasher);
    hasher.finish()
}

fn main() {
    let file = std::env::args().nth(1).expect("needs a file");
    let text = std::fs::read_to_string(&file).expect("cannot read it");
    let mut table: Vec<(String, u32)> = counts(&text).into_iter().collect();
    table.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let most: Vec<String> = table.iter().take(5).map(|(word, count)| format!("{word} {count}")).collect();
    println!("{} words; most often: {}; {:016x}", table.iter().map(|(_, count)| count).sum::<u32>(), most.join(" "), checksum(&table));
}
