//! The suites: a row for each.

use xtask::debian::Foreign;

use super::emulated::ARCH;
use super::forms::{
    CLBLAST, CLFFT_CLIENT, Form, GGML, GOOGLE, GOOGLE_WITH_DATA, HASHCAT, NORMS, OPENMP, Programs, ROCBLAS_TEST,
    SCRIPTS, THRUST,
};
use super::place::Source;
use super::regions::Stretch;

/// A packaged program whose own tests are run.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// How a page calls it.
    pub(crate) title: &'static str,
    pub(crate) source: Source,
    /// The suite in whose folder the programs are, which has the same source; empty for its own.
    pub(crate) place: &'static str,
    /// Packages whose versions say what was tested, by the beginnings of their names.
    pub(crate) versions: &'static [&'static str],
    pub(crate) programs: Programs,
    pub(crate) form: Form,
    /// The processor that is emulated.
    pub(crate) arch: &'static str,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// False where kernels on several GPUs wait for each other: a capture holds one while the other runs.
    pub(crate) captured: bool,
    /// What of a test is captured as a region, in the long list.
    pub(crate) stretch: Stretch,
    /// How many tests are sampled in the short list; 0 when it is not in it.
    pub(crate) short: usize,
    /// How many are sampled in the long list.
    pub(crate) full: usize,
    /// Tests that hardware, or this emulation on purpose, does not do: left out.
    pub(crate) left_out: &'static [LeftOut],
    pub(crate) known: &'static [Known],
}

impl Suite {
    /// What a row has that does not say otherwise.
    const DEFAULT: Suite = Suite {
        name: "",
        title: "",
        source: Source::Machine,
        place: "",
        versions: &[],
        programs: Programs::Of(""),
        form: GOOGLE,
        arch: ARCH,
        variables: &[],
        captured: true,
        stretch: Stretch::None,
        short: 0,
        full: 0,
        left_out: &[],
        known: &[],
    };

    /// The name of the folder with its programs.
    pub(crate) fn place(&self) -> &'static str {
        if self.place.is_empty() { self.name } else { self.place }
    }
}

/// Tests that are never sampled.
pub(crate) struct LeftOut {
    /// A part of their names.
    pub(crate) test: &'static str,
    pub(crate) reason: &'static str,
}

/// A failure that is known.
pub(crate) struct Known {
    /// A part of the test's name.
    pub(crate) test: &'static str,
    pub(crate) reason: &'static str,
    /// The test passes in some runs.
    pub(crate) sometimes: bool,
}

/// Two of what most have one of.
const TWO: &str = "2*gfx90a";

/// rocBLAS's kernels for other processors are ten times as large.
const ROCBLAS_PARTS: &[&str] = &["*.so.*", "*gfx90a*", "*TensileLibrary.dat"];
/// The same for the other processor that both the package and the tests of this project have.
const GFX906_ROCBLAS_PARTS: &[&str] = &["*.so.*", "*gfx906*", "*TensileLibrary.dat"];
/// The same for versions that load a kernel at its first call: `*_fallback.dat` lists the kernels that every processor has.
const LAZY_ROCBLAS_PARTS: &[&str] = &["*.so.*", "*gfx90a*", "*_fallback.dat"];

/// rocWMMA's tests with the library that some of them compare with, which has kernels for gfx942 and not for gfx950.
const ROCWMMA: Source = Source::Debian {
    rocm: "7.2.4",
    packages: &["librocwmma-tests", "librocwmma-tests-validate"],
    parts: &[("librocblas5", &["*.so.*", "*gfx942*", "*_fallback.dat"])],
    python: &[],
    foreign: &[],
};
const HIPSPARSELT: Source = Source::debian("7.2.4", &["hipsparselt-tests"]);
/// Where hipSPARSELt finds its kernels: it looks for them beside the last library whose path has its own name, which all have in a place
/// of that name.
const HIPSPARSELT_KERNELS: &[(&str, &str)] = &[("ROCSPARSELT_TENSILE_LIBPATH", "{place}/lib/hipsparselt/library")];

/// How programs get ROCm's OpenCL of their place. By its file's name the loader finds it; no other is asked. Its compiler needs the source
/// of a header that it has precompiled for warnings, and for kernels that define what the header does.
const OPENCL: &[(&str, &str)] =
    &[("OCL_ICD_VENDORS", "libamdocl64.so"), ("AMD_OCL_BUILD_OPTIONS_APPEND", "-Wf,-ivfsoverlay{place}/headers.json")];

/// Transforms by clFFT's client: lengths by radix, dimensions, types, layouts and places. Lengths with the factors 11 and 13 are left
/// out: the client expects zeros where sums of rounded products are that.
const CLFFT: &[&str] = &[
    "-x 64 -y 32",
    "-x 1000",
    "-x 4096 -d",
    "-x 7 -y 7 -z 7",
    "-x 2048 --inLayout 5 --outLayout 3 --outPlace",
    "-x 1024 --inLayout 3 --outLayout 5 --outPlace",
    "-x 65536",
    "-x 128 -y 128 -z 4 -d",
    "-x 243 -b 5",
];

/// The tests of the HSA runtime are linked with this library of AMD SMI, of which their suite only has a later one. Ubuntu 26.04
/// has it.
const AMD_SMI: Foreign = Foreign {
    name: "libamd-smi26",
    version: "7.2.0-3",
    uri: "http://archive.ubuntu.com/ubuntu/pool/universe/a/amdsmi/libamd-smi26_7.2.0-3_amd64.deb",
    sha256: "efba88ac74a664e74938949984739dad1fee5976edfd04ef760b3f547a218b26",
};

pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "rocrand",
        title: "rocRAND's tests",
        source: Source::debian("6.1.2", &["librocrand1-tests"]),
        versions: &["librocrand1-tests"],
        programs: Programs::Of("libexec/rocm/librocrand1-tests"),
        form: GOOGLE,
        short: 2,
        full: 40,
        known: &[
            Known {
                test: "mt19937_generator",
                reason: "its generator jumps ahead for each of its threads, for longer than the time limit",
                sometimes: false,
            },
            Known {
                test: "lfsr113_prng_tests",
                reason: "its kernel executes 2*10^10 instructions, and `analyze` checks each of them, for longer than the time limit",
                sometimes: true,
            },
        ],
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocblas",
        title: "rocblas-bench with its checks",
        source: Source::Debian {
            rocm: "6.1.2",
            packages: &["librocblas0-bench"],
            parts: &[("librocblas0", ROCBLAS_PARTS)],
            python: &[],
            foreign: &[],
        },
        versions: &["librocblas0"],
        programs: Programs::With("libexec/rocm/librocblas0-bench/rocblas-bench", ROCBLAS),
        form: NORMS,
        // A process loads a gigabyte of code: half a minute, four times for each test.
        full: ROCBLAS.len(),
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocblas-tests",
        title: "rocBLAS's tests",
        source: Source::Debian {
            rocm: "6.1.2",
            packages: &["librocblas0-tests"],
            parts: &[("librocblas0", ROCBLAS_PARTS)],
            python: &[],
            foreign: &[],
        },
        versions: &["librocblas0-tests"],
        programs: Programs::With("libexec/rocm/librocblas0-tests/rocblas-test", &["share/rocblas/2.47.0/test"]),
        form: ROCBLAS_TEST,
        // As for `rocblas`.
        full: 12,
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocblas-tests-gfx906",
        title: "rocBLAS's tests on gfx906",
        source: Source::Debian {
            rocm: "6.1.2",
            packages: &["librocblas0-tests"],
            parts: &[("librocblas0", GFX906_ROCBLAS_PARTS)],
            python: &[],
            foreign: &[],
        },
        versions: &["librocblas0-tests"],
        programs: Programs::With("libexec/rocm/librocblas0-tests/rocblas-test", &["share/rocblas/2.47.0/test"]),
        form: ROCBLAS_TEST,
        arch: "gfx906",
        // As for `rocblas`.
        full: 6,
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocfft",
        title: "rocFFT's tests",
        source: Source::debian("6.1.2", &["librocfft0-tests"]),
        versions: &["librocfft0"],
        programs: Programs::Of("libexec/rocm/librocfft0-tests"),
        form: GOOGLE,
        // Kernels that were compiled are kept in memory only.
        variables: &[("ROCFFT_RTC_CACHE_PATH", ":memory:"), ("ROCFFT_RTC_SYS_CACHE_PATH", ":memory:")],
        full: 12,
        stretch: Stretch::Middle,
        ..Suite::DEFAULT
    },
    Suite {
        name: "clblast",
        title: "CLBlast's tests on ROCm's OpenCL",
        source: Source::debian("6.1.2", &["clblast-tests", "rocm-opencl-icd"]),
        versions: &["clblast-tests", "rocm-opencl-icd"],
        programs: Programs::Of("bin"),
        form: CLBLAST,
        variables: OPENCL,
        short: 1,
        full: 12,
        ..Suite::DEFAULT
    },
    Suite {
        name: "clfft",
        title: "clFFT's client on ROCm's OpenCL",
        source: Source::debian("6.1.2", &["clfft-client", "rocm-opencl-icd"]),
        versions: &["clfft-client", "rocm-opencl-icd"],
        programs: Programs::With("bin/clFFT-client", CLFFT),
        form: CLFFT_CLIENT,
        variables: OPENCL,
        full: CLFFT.len(),
        ..Suite::DEFAULT
    },
    Suite {
        name: "rccl",
        title: "RCCL's tests, on two GPUs",
        source: Source::debian("6.1.2", &["librccl1-tests"]),
        versions: &["librccl1-tests"],
        programs: Programs::With("libexec/rocm/librccl1-tests/UnitTests", &[]),
        form: GOOGLE,
        arch: TWO,
        // Of each collective, the types and operations that differ most.
        variables: &[
            ("UT_MIN_GPUS", "2"),
            ("UT_DATATYPES", "ncclInt8,ncclFloat16,ncclFloat64"),
            ("UT_REDOPS", "sum,max"),
        ],
        captured: false,
        full: 8,
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocprim",
        title: "rocPRIM's tests",
        source: Source::debian("6.1.2", &["librocprim-tests"]),
        versions: &["librocprim-tests"],
        programs: Programs::Of("libexec/rocm/librocprim-tests"),
        form: GOOGLE,
        full: 40,
        stretch: Stretch::Middle,
        ..Suite::DEFAULT
    },
    Suite {
        name: "hipcub",
        title: "hipCUB's tests",
        source: Source::debian("6.1.2", &["libhipcub-tests"]),
        versions: &["libhipcub-tests"],
        programs: Programs::Of("libexec/rocm/libhipcub-tests"),
        form: GOOGLE,
        full: 30,
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocthrust",
        title: "rocThrust's tests",
        source: Source::debian("6.1.2", &["librocthrust-tests"]),
        versions: &["librocthrust-tests"],
        programs: Programs::Of("libexec/rocm/librocthrust-tests"),
        form: THRUST,
        full: 30,
        ..Suite::DEFAULT
    },
    Suite {
        name: "hipsparse",
        title: "hipSPARSE's tests",
        source: Source::debian("6.1.2", &["libhipsparse0-tests"]),
        versions: &["libhipsparse0-tests", "librocsparse0"],
        programs: Programs::With("libexec/rocm/libhipsparse0-tests/hipsparse-test", HIPSPARSE),
        form: GOOGLE,
        full: HIPSPARSE.len(),
        ..Suite::DEFAULT
    },
    Suite {
        name: "hipsparselt",
        title: "hipSPARSELt's tests on gfx942",
        source: HIPSPARSELT,
        versions: &["hipsparselt-tests", "libhipsparselt0"],
        programs: Programs::With("bin/hipsparselt-test", &["bin/hipsparselt_gtest.data"]),
        form: GOOGLE_WITH_DATA,
        arch: "gfx942",
        variables: HIPSPARSELT_KERNELS,
        full: 24,
        ..Suite::DEFAULT
    },
    Suite {
        name: "hipsparselt-gfx950",
        title: "hipSPARSELt's tests on gfx950",
        source: HIPSPARSELT,
        place: "hipsparselt",
        versions: &["hipsparselt-tests", "libhipsparselt0"],
        programs: Programs::With("bin/hipsparselt-test", &["bin/hipsparselt_gtest.data"]),
        form: GOOGLE_WITH_DATA,
        arch: "gfx950",
        variables: HIPSPARSELT_KERNELS,
        full: 24,
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocwmma",
        title: "rocWMMA's tests on gfx942",
        source: ROCWMMA,
        versions: &["librocwmma-tests"],
        programs: Programs::Of("libexec/rocm/librocwmma-tests"),
        form: GOOGLE,
        arch: "gfx942",
        full: 28,
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocwmma-gfx950",
        title: "rocWMMA's tests on gfx950",
        source: ROCWMMA,
        place: "rocwmma",
        versions: &["librocwmma-tests"],
        programs: Programs::Of("libexec/rocm/librocwmma-tests"),
        form: GOOGLE,
        arch: "gfx950",
        full: 28,
        left_out: &[LeftOut { test: "gemm_", reason: "it compares with rocBLAS, which has no kernels for gfx950" }],
        ..Suite::DEFAULT
    },
    Suite {
        name: "rocsolver",
        title: "rocSOLVER's tests",
        source: Source::Debian {
            rocm: "6.4.3",
            packages: &["librocsolver0-tests"],
            parts: &[("librocblas4", LAZY_ROCBLAS_PARTS)],
            python: &[],
            foreign: &[],
        },
        versions: &["librocsolver0-tests"],
        programs: Programs::Of("libexec/rocm/librocsolver0-tests"),
        form: GOOGLE,
        full: 12,
        ..Suite::DEFAULT
    },
    Suite {
        name: "hashcat",
        title: "hashcat's examples, on its HIP device",
        source: Source::debian("6.4.3", &["hashcat"]),
        versions: &["hashcat"],
        programs: Programs::With("bin/hashcat", &["share/hashcat"]),
        form: HASHCAT,
        full: 6,
        ..Suite::DEFAULT
    },
    Suite {
        name: "ggml",
        title: "ggml's operator tests",
        source: Source::Debian {
            rocm: "6.4.3",
            packages: &["libggml0-backend-hip", "llama.cpp-tests"],
            parts: &[("librocblas4", LAZY_ROCBLAS_PARTS)],
            python: &[],
            foreign: &[],
        },
        versions: &["libggml0-backend-hip", "llama.cpp-tests"],
        programs: Programs::With("libexec/x86_64-linux-gnu/llama.cpp-tests/test-backend-ops", &[]),
        form: GGML,
        full: 12,
        ..Suite::DEFAULT
    },
    Suite {
        name: "llama",
        title: "llama.cpp with models of random weights: the processor's tokens or logits",
        source: Source::Debian {
            rocm: "6.4.3",
            packages: &["libggml0-backend-hip", "llama.cpp-examples"],
            parts: &[("librocblas4", LAZY_ROCBLAS_PARTS)],
            python: &["gguf==0.19.0", "numpy==2.4.6"],
            foreign: &[],
        },
        versions: &["libggml0-backend-hip", "llama.cpp-examples"],
        programs: Programs::Ours("tests/suites/llama"),
        form: SCRIPTS,
        full: 5,
        stretch: Stretch::LastRound("k_get_rows"),
        ..Suite::DEFAULT
    },
    Suite {
        name: "hsa",
        title: "the HSA runtime's tests (rocrtst)",
        source: Source::Debian {
            rocm: "7.2.4",
            packages: &["libhsa-runtime64-tests"],
            parts: &[],
            python: &[],
            foreign: &[AMD_SMI],
        },
        versions: &["libhsa-runtime64-tests", "libamd-smi"],
        programs: Programs::With("libexec/rocm/libhsa-runtime64-tests/rocrtst64", &[]),
        form: GOOGLE,
        short: 2,
        full: 60,
        left_out: &[
            LeftOut {
                test: "Queue_CAS_Write_Index",
                reason: "its four threads pass four million turns to each other and spin meanwhile: with fewer processors, a turn \
                         takes a time slice, also without a GPU",
            },
            LeftOut {
                test: "Max_Reference_Count",
                reason: "it starts the runtime 2^31 times, and shuts it down as often: minutes, also without a kernel",
            },
        ],
        ..Suite::DEFAULT
    },
    Suite {
        name: "tinygrad",
        title: "tinygrad's HIP device",
        source: Source::Python { rocm: "6.4.3", packages: &["tinygrad==0.14.0", "numpy==2.4.6"] },
        versions: &["tinygrad"],
        programs: Programs::Ours("tests/suites/tinygrad"),
        form: SCRIPTS,
        // Child processes that compile would not be started with the libraries of the place. Version 0.14.0 takes the matrix
        // instructions of gfx11 for those of gfx90a.
        variables: &[("DEV", "HIP"), ("PARALLEL", "0"), ("TC", "0")],
        short: 2,
        full: 20,
        stretch: Stretch::Middle,
        ..Suite::DEFAULT
    },
    Suite {
        name: "openmm",
        title: "OpenMM's HIP platform, compared with its reference",
        source: Source::Python { rocm: "6.4.3", packages: &["openmm==8.6.1", "openmm-hip-6==8.6.1", "numpy==2.4.6"] },
        versions: &["openmm"],
        programs: Programs::Ours("tests/suites/openmm"),
        form: SCRIPTS,
        short: 1,
        full: 7,
        ..Suite::DEFAULT
    },
    Suite {
        name: "iree",
        title: "IREE's modules, recorded and replayed by its own tools",
        source: Source::Python {
            rocm: "6.4.3",
            packages: &["iree-base-compiler==3.13.0", "iree-base-runtime==3.13.0", "numpy==2.4.6"],
        },
        versions: &["iree-base"],
        programs: Programs::Ours("tests/suites/iree"),
        form: SCRIPTS,
        short: 2,
        full: 9,
        known: &[
            Known {
                test: "replay of",
                reason: "IREE 3.13.0 loses a wake-up: iree-run-replay waits for ever while its threads sleep and the GPU is idle; when it \
                         records, it frees a semaphore after the device, and dies with signal 11",
                sometimes: true,
            },
            Known { test: "benchmark of", reason: "as for its replays", sometimes: true },
        ],
        stretch: Stretch::Middle,
        ..Suite::DEFAULT
    },
    Suite {
        name: "openmp",
        title: "OpenMP target regions, compiled with LLVM 19",
        source: Source::Machine,
        versions: &[],
        programs: Programs::Ours("tests/suites/openmp"),
        form: OPENMP,
        arch: TWO,
        variables: &[("OMP_TARGET_OFFLOAD", "MANDATORY")],
        short: 1,
        full: 4,
        ..Suite::DEFAULT
    },
    Suite {
        name: "openmp21",
        title: "OpenMP target regions, compiled with LLVM 21",
        // The packages of LLVM 22 to 24 have the host's part of the runtime only: they lack `libompdevice.a`.
        source: Source::debian("6.4.3", &["liboffload-21-dev", "libomp-21-dev"]),
        versions: &["liboffload-21-dev"],
        programs: Programs::Ours("tests/suites/openmp"),
        form: OPENMP,
        arch: TWO,
        variables: &[("OMP_TARGET_OFFLOAD", "MANDATORY")],
        full: 4,
        ..Suite::DEFAULT
    },
];

/// Cases of `hipsparse-test` with the largest sizes of their kind. Of its 90,000 cases most have sizes of zero or less, or
/// read matrices that the package does not have: they dispatch nothing but the library's own preparations. The matrices
/// of `csrsv2` have rows without a diagonal element, whose results are what LDS held before: no replay has them again.
const HIPSPARSE: &[&str] = &[
    "axpyi/parameterized_axpyi.axpyi_double/48",
    "bsrmv/parameterized_bsrmv.bsrmv_float/383",
    "bsrsv2/parameterized_bsrsv2.bsrsv2_float/239",
    "coosort/parameterized_coosort.coosort/287",
    "csr2csc/parameterized_csr2csc.csr2csc_float/143",
    "csr2dense/parameterized_csr2dense.csr2dense_float/215",
    "csrgeam2/parameterized_csrgeam2.csrgeam2_double/799",
    "csrgemm2_a/parameterized_csrgemm2_a.csrgemm2_a_float/511",
    "csrilu02/parameterized_csrilu02.csrilu02_double/15",
    "csrmm/parameterized_csrmm.csrmm_float/2699",
    "csrmv/parameterized_csrmv.csrmv_double/95",
    "dense2csr/parameterized_dense2csr.dense2csr_double/215",
    "gpsv_interleaved_batch.gpsv_interleaved_batch_float",
    "gthr/parameterized_gthr.gthr_float/47",
    "gtsv2.gtsv2_double",
    "identity/parameterized_identity.identity/5",
    "nnz/parameterized_nnz.nnz_float/107",
];

/// Arguments of `rocblas-bench`: `-v 1` compares with the BLAS of the processor, `-i 1 -j 0` runs once. Leading dimensions are
/// 128 unless they are given; for a matrix that is larger, most functions run nothing and print nothing.
const ROCBLAS: &[&str] = &[
    "-f gemm -r f32_r -m 128 -n 128 -k 128 -v 1 -i 1 -j 0",
    "-f gemm -r f32_r -m 67 -n 45 -k 31 --transposeA T -v 1 -i 1 -j 0",
    "-f gemm -r f64_r -m 96 -n 64 -k 33 --transposeB T -v 1 -i 1 -j 0",
    "-f gemm -r f16_r -m 64 -n 64 -k 64 -v 1 -i 1 -j 0",
    "-f gemm -r f32_c -m 32 -n 32 -k 32 -v 1 -i 1 -j 0",
    "-f gemm_ex --a_type f16_r --b_type f16_r --c_type f16_r --d_type f16_r --compute_type f32_r -m 128 -n 64 -k 64 -v 1 -i 1 -j 0",
    "-f gemm_ex --a_type bf16_r --b_type bf16_r --c_type f32_r --d_type f32_r --compute_type f32_r -m 64 -n 64 -k 64 -v 1 -i 1 -j 0",
    "-f gemm_ex --a_type i8_r --b_type i8_r --c_type i32_r --d_type i32_r --compute_type i32_r -m 64 -n 64 -k 64 -v 1 -i 1 -j 0",
    "-f gemm_strided_batched -r f32_r -m 40 -n 40 -k 24 --batch_count 5 -v 1 -i 1 -j 0",
    "-f gemv -r f32_r -m 300 -n 200 --lda 300 -v 1 -i 1 -j 0",
    "-f ger -r f64_r -m 120 -n 90 -v 1 -i 1 -j 0",
    "-f axpy -r f32_r -n 10000 -v 1 -i 1 -j 0",
    "-f dot -r f64_r -n 10000 -v 1 -i 1 -j 0",
    "-f nrm2 -r f32_r -n 10000 -v 1 -i 1 -j 0",
    "-f scal -r f32_c -n 10000 -v 1 -i 1 -j 0",
    "-f rot -r f32_r -n 5000 -v 1 -i 1 -j 0",
    "-f trsm -r f32_r -m 64 -n 32 --side L --uplo L --transposeA N --diag N -v 1 -i 1 -j 0",
    "-f trmm -r f64_r -m 48 -n 40 --side R --uplo U --transposeA T --diag N -v 1 -i 1 -j 0",
    "-f syrk -r f32_r -n 64 -k 48 --uplo L -v 1 -i 1 -j 0",
    "-f symm -r f32_r -m 40 -n 56 --side L --uplo U -v 1 -i 1 -j 0",
    "-f geam -r f32_r -m 80 -n 70 -v 1 -i 1 -j 0",
    "-f dgmm -r f64_r -m 60 -n 50 --side L -v 1 -i 1 -j 0",
];
