//! Runtime selection of SIMD code for loops over many nodes.
//!
//! Such loops are compiled a second time for registers that not every processor of the platform has. The
//! results are equal: floating-point operations are rounded one by one in either form.

#[cfg(target_arch = "x86_64")]
use crate::switches::ablation::{self, Layer};
#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd as _};

/// Runs `work` compiled for the widest registers of this processor.
///
/// The closure and the functions that contain its loops must be `#[inline(always)]`; other functions are
/// compiled for every processor.
#[inline(always)]
pub(crate) fn with_best_instructions<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Level::new().as_avx2()
        && !ablation::is_off(Layer::Simd)
    {
        return avx2.vectorize(work);
    }
    work()
}
