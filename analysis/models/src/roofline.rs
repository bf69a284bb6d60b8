//! How far a kernel can get by the published peaks of a product: its operations for each byte of memory, below the roof of bandwidth and
//! operations.
//!
//! Peaks are the vendor's, not measured, and no time of the emulated GPU is in them.

use std::fmt::Write as _;

use amdgpu_isa::Arch;

use crate::operations::Type;

/// Published peaks of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Its processor.
    pub arch: Arch,
    /// Its name.
    pub product: &'static str,
    /// Bytes of memory in a second.
    pub bandwidth: f64,
    /// Operations of vector instructions in a second.
    pub vector: &'static [(Type, f64)],
    /// Operations of matrix instructions in a second.
    pub matrix: &'static [(Type, f64)],
}

const TERA: f64 = 1e12;

/// The products whose peaks are known. Source: AMD's data sheets of these products, "Peak Theoretical Performance", without sparsity.
pub(crate) const PEAKS: &[Peaks] = &[
    Peaks {
        arch: Arch::Gfx908,
        product: "AMD Instinct MI100",
        bandwidth: 1.2288 * TERA,
        vector: &[(Type::F64, 11.5 * TERA), (Type::F32, 23.1 * TERA)],
        matrix: &[
            (Type::F32, 46.1 * TERA),
            (Type::F16, 184.6 * TERA),
            (Type::Bf16, 92.3 * TERA),
            (Type::I8, 184.6 * TERA),
        ],
    },
    Peaks {
        arch: Arch::Gfx90a,
        product: "AMD Instinct MI210",
        bandwidth: 1.6384 * TERA,
        vector: &[(Type::F64, 22.6 * TERA), (Type::F32, 22.6 * TERA)],
        matrix: &[
            (Type::F64, 45.3 * TERA),
            (Type::F32, 45.3 * TERA),
            (Type::F16, 181.0 * TERA),
            (Type::Bf16, 181.0 * TERA),
            (Type::I8, 181.0 * TERA),
        ],
    },
    Peaks {
        arch: Arch::Gfx942,
        product: "AMD Instinct MI300X",
        bandwidth: 5.3 * TERA,
        vector: &[(Type::F64, 81.7 * TERA), (Type::F32, 163.4 * TERA)],
        matrix: &[
            (Type::F64, 163.4 * TERA),
            (Type::F32, 163.4 * TERA),
            (Type::F16, 1307.4 * TERA),
            (Type::Bf16, 1307.4 * TERA),
            (Type::F8, 2614.9 * TERA),
            (Type::I8, 2614.9 * TERA),
        ],
    },
    Peaks {
        arch: Arch::Gfx942,
        product: "AMD Instinct MI300A",
        bandwidth: 5.3 * TERA,
        vector: &[(Type::F64, 61.3 * TERA), (Type::F32, 122.6 * TERA)],
        matrix: &[
            (Type::F64, 122.6 * TERA),
            (Type::F32, 122.6 * TERA),
            (Type::F16, 980.6 * TERA),
            (Type::Bf16, 980.6 * TERA),
            (Type::F8, 1961.2 * TERA),
            (Type::I8, 1961.2 * TERA),
        ],
    },
    Peaks {
        arch: Arch::Gfx950,
        product: "AMD Instinct MI350X",
        bandwidth: 8.0 * TERA,
        vector: &[(Type::F64, 72.1 * TERA), (Type::F32, 144.2 * TERA)],
        matrix: &[
            (Type::F64, 72.1 * TERA),
            (Type::F32, 144.2 * TERA),
            (Type::F16, 2306.9 * TERA),
            (Type::Bf16, 2306.9 * TERA),
            (Type::F8, 4613.7 * TERA),
            (Type::F6, 9227.5 * TERA),
            (Type::F4, 9227.5 * TERA),
            (Type::I8, 4613.7 * TERA),
        ],
    },
    Peaks {
        arch: Arch::Gfx950,
        product: "AMD Instinct MI355X",
        bandwidth: 8.0 * TERA,
        vector: &[(Type::F64, 78.6 * TERA), (Type::F32, 157.3 * TERA)],
        matrix: &[
            (Type::F64, 78.6 * TERA),
            (Type::F32, 157.3 * TERA),
            (Type::F16, 2516.6 * TERA),
            (Type::Bf16, 2516.6 * TERA),
            (Type::F8, 5033.2 * TERA),
            (Type::F6, 10066.3 * TERA),
            (Type::F4, 10066.3 * TERA),
            (Type::I8, 5033.2 * TERA),
        ],
    },
];

/// The peaks of the product that a device's name begins with; of another name those of the first product with the processor.
pub fn peaks(arch: Arch, device: &str) -> Option<&'static Peaks> {
    let mut of_arch = PEAKS.iter().filter(|peaks| peaks.arch == arch);
    of_arch.clone().find(|peaks| device.starts_with(peaks.product)).or_else(|| of_arch.next())
}

/// Where a kernel's operations of a type are below the roof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The type.
    pub of: Type,
    /// The peak is that of matrix instructions.
    pub matrix: bool,
    /// Operations for each byte of memory.
    pub intensity: f64,
    /// The most operations in a second.
    pub peak: f64,
    /// The operations for each byte from which on the peak limits, and below which the bandwidth does.
    pub ridge: f64,
}

impl Point {
    /// Of so many operations and bytes; `None` where nothing is published, or nothing was done.
    pub fn of(peaks: &Peaks, of: Type, matrix: bool, operations: u64, bytes: u64) -> Option<Point> {
        let table = if matrix { peaks.matrix } else { peaks.vector };
        let (_, peak) = table.iter().find(|(known, _)| *known == of)?;
        let intensity = (operations > 0 && bytes > 0).then(|| operations as f64 / bytes as f64)?;
        Some(Point { of, matrix, intensity, peak: *peak, ridge: peak / peaks.bandwidth })
    }

    /// The most operations in a second that memory allows.
    pub fn roof(&self) -> f64 {
        self.peak * (self.intensity / self.ridge).min(1.0)
    }

    /// True where the bandwidth is the limit.
    pub fn is_bound_by_memory(&self) -> bool {
        self.intensity < self.ridge
    }
}

/// The peaks as a table of Markdown.
pub fn table() -> String {
    let mut text =
        "| processor | product | memory | vector instructions | matrix instructions |\n|---|---|---|---|---|\n"
            .to_owned();
    let list = |all: &[(Type, f64)]| -> String {
        let words: Vec<String> = all.iter().map(|(of, peak)| format!("{} {}", of.word(), peak / TERA)).collect();
        words.join(", ")
    };
    for Peaks { arch, product, bandwidth, vector, matrix } in PEAKS {
        let (bandwidth, vector, matrix) = (bandwidth / TERA, list(vector), list(matrix));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{}` | {product} | {bandwidth} TB/s | {vector} | {matrix} |", arch.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_with_one_processor_have_peaks_of_their_own() {
        let product = |arch, device: &str| peaks(arch, device).map(|peaks| peaks.product);
        for row in PEAKS {
            assert_eq!(product(row.arch, &format!("{} (emulated)", row.product)), Some(row.product));
        }
        assert_eq!(product(Arch::Gfx950, ""), Some("AMD Instinct MI350X"));
        assert_eq!(product(Arch::Gfx942, "AMD Radeon Graphics"), Some("AMD Instinct MI300X"));
        assert_eq!(product(Arch::Gfx900, "AMD Instinct MI355X"), None);
    }

    #[test]
    fn below_the_ridge_memory_limits_and_above_it_the_peak() {
        let peaks = peaks(Arch::Gfx90a, "").expect("a product");
        // A sum of two vectors: an operation for 12 bytes.
        let sum = Point::of(peaks, Type::F32, false, 1 << 20, 12 << 20).expect("a point");
        assert!(sum.is_bound_by_memory());
        assert!((sum.roof() - peaks.bandwidth / 12.0).abs() < 1.0);
        // A product of matrices of 4096 by 4096 halves: 2n^3 operations for 6n^2 bytes.
        let product = Point::of(peaks, Type::F16, true, 2 << 36, 6 << 24).expect("a point");
        assert!(!product.is_bound_by_memory());
        assert_eq!(product.roof(), 181e12);
        assert_eq!(Point::of(peaks, Type::I8, false, 1, 1), None);
        assert_eq!(Point::of(peaks, Type::F32, false, 1, 0), None);
    }
}
