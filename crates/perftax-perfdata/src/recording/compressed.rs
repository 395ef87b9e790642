//! COMPRESSED and COMPRESSED2 records: one endless zstd stream a file, cut into records anywhere.

use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Undoes the compression of one file's records, in order.
pub struct Decompressor {
    context: Option<DCtx<'static>>,
    chunk: Vec<u8>,
    /// Plain bytes that are not yet a whole record.
    pending: Vec<u8>,
}

const CHUNK_BYTES: usize = 1 << 16;
/// Plain bytes that one record may hold beyond [`MAX_EXPANSION`] times its own size. perf compresses at most one ring's
/// content at a time.
const SLACK_BYTES: u64 = 1 << 20;
/// perf's records shrink to a fifth to a thirtieth; far more than that is a forged stream that would take forever.
const MAX_EXPANSION: u64 = 1 << 10;

impl Decompressor {
    /// At the beginning of a file's stream.
    pub fn new() -> Self {
        Self { context: None, chunk: Vec::new(), pending: Vec::new() }
    }

    /// Whether plain bytes wait for the rest of their record.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Decompresses and gives each whole record to `each` as (kind, misc, body).
    ///
    /// # Errors
    /// What is wrong with the stream, or with the records in it.
    pub fn feed(
        &mut self,
        compressed: &[u8],
        order: super::bytes::Order,
        mut each: impl FnMut(u32, u16, &[u8]),
    ) -> Result<(), String> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or("no memory for decompression")?),
        };
        self.chunk.resize(CHUNK_BYTES, 0);
        let allowance = SLACK_BYTES + MAX_EXPANSION * compressed.len() as u64;
        let mut produced = 0;
        let mut input = InBuffer::around(compressed);
        loop {
            let mut output = OutBuffer::around(&mut self.chunk[..]);
            let result = context.decompress_stream(&mut output, &mut input);
            let got = output.pos();
            result.map_err(|code| format!("its compressed data are damaged ({})", zstd_safe::get_error_name(code)))?;
            produced += got as u64;
            if produced > allowance {
                return Err(format!("{} compressed bytes expand to more than {allowance}", compressed.len()));
            }
            self.pending.extend_from_slice(&self.chunk[..got]);
            let mut at = 0;
            while let (Some(kind), Some(misc), Some(size)) =
                (order.u32(&self.pending, at), order.u16(&self.pending, at + 4), order.u16(&self.pending, at + 6))
            {
                if size < 8 {
                    return Err(format!("a record inside the compressed data says it is {size} bytes long, needs at least 8"));
                }
                let Some(body) = self.pending.get(at + 8..at + usize::from(size)) else { break };
                each(kind, misc, body);
                at += usize::from(size);
            }
            self.pending.drain(..at);
            if got < CHUNK_BYTES && input.pos() == compressed.len() {
                return Ok(());
            }
            if got == 0 && input.pos() < compressed.len() && produced == 0 {
                return Err("its compressed data do not advance".into());
            }
        }
    }
}
