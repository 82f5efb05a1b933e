//! Loops over many nodes, compiled once more for wider registers than every processor of the platform has. The numbers are the same:
//! each operation on floats is rounded as it stands, whichever instructions do it.

use fearless_simd::Level;
#[cfg(target_arch = "x86_64")]
use fearless_simd::Simd as _;

/// Runs `work` in the form for the widest registers that the processor has.
///
/// The closure and the functions that its loops are in have to be `#[inline(always)]`: what is called is compiled for every processor.
#[inline(always)]
pub(crate) fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Level::new().as_avx2() {
        return avx2.vectorize(work);
    }
    work()
}
