//! Samples from recorded bytes.

use super::Sampler;
use crate::error::Result;
use crate::record::{Header, Layout, stream};

/// Records that were taken elsewhere, handed out as a live source would.
pub struct ReplaySampler {
    layout: Layout,
    bytes: Vec<u8>,
    enabled: bool,
    at: usize,
}

impl ReplaySampler {
    /// From contiguous records and the layout of their samples.
    pub fn new(layout: Layout, bytes: Vec<u8>) -> Self {
        Self { layout, bytes, enabled: false, at: 0 }
    }
}

impl Sampler for ReplaySampler {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn enable(&mut self) -> Result<()> {
        self.enabled = true;
        Ok(())
    }

    fn disable(&mut self) -> Result<()> {
        self.enabled = false;
        Ok(())
    }

    fn drain(&mut self, each: &mut dyn FnMut(Header, &[u8])) -> Result<u64> {
        if !self.enabled {
            return Ok(0);
        }
        let start = self.at;
        for record in stream(&self.bytes[start..]) {
            let record = record?;
            each(record.header, record.body);
            self.at += usize::from(record.header.size);
        }
        Ok((self.at - start) as u64)
    }
}
