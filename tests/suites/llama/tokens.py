"""A language model with random weights, made here, is the same on the GPU as on the processor.

Without an argument the types of weights are printed, one a line; with a type that model is run. With types that keep eight
bits and more, the GPU gives the processor's tokens. With fewer bits, its logits are compared with those of the same weights
in 32 bits.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np

TYPES = ["F32", "F16", "Q8_0"]
# Of these, ggml's kernels for GPUs take the sum of a block's activations before these are rounded to eight bits, those for
# processors take it after. Between tokens of random weights such differences decide, so that tokens tell nothing.
OF_FEW_BITS = ["Q4_0", "Q5_1"]
# The largest error of logits: squares, relative to the squares of the right ones. ggml allows one product 5e-4. A model of NumPy
# that rounds activations as these kernels do has errors of 1e-3 to 3e-3, and a wrong element in a block of 32 makes 3e-2.
ERROR = 1e-2
# The first has so many tokens that whole matrices are multiplied, the second so few that vectors are.
PROMPTS = ["to be", "a"]
LAYERS, HEADS, WIDTH, INNER, CONTEXT = 2, 4, 128, 256, 256
TOKENS = 12


def write(path, kind, exact=False):
    """The file of a model in the form of Llama, whose vocabulary is the 256 bytes. If it is exact, the values that weights of
    the type have are written in 32 bits."""
    import gguf

    quantization = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    of_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["<unk>", "<s>", "</s>", *of_bytes]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    kinds = gguf.TokenType
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    random = np.random.default_rng(11)

    def tensor(name, *shape):
        values = (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        weights = gguf.quants.quantize(values, quantization)
        if exact:
            writer.add_tensor(name, gguf.quants.dequantize(weights, quantization))
        else:
            writer.add_tensor(name, weights, raw_dtype=quantization)

    def ones(name):
        writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))

    tensor("token_embd.weight", len(words), WIDTH)
    ones("output_norm.weight")
    tensor("output.weight", len(words), WIDTH)
    for layer in range(LAYERS):
        ones(f"blk.{layer}.attn_norm.weight")
        ones(f"blk.{layer}.ffn_norm.weight")
        for part in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            tensor(f"blk.{layer}.{part}.weight", WIDTH, WIDTH)
        tensor(f"blk.{layer}.ffn_gate.weight", INNER, WIDTH)
        tensor(f"blk.{layer}.ffn_up.weight", INNER, WIDTH)
        tensor(f"blk.{layer}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run(program, model, layers, environment, *options):
    place = os.environ["SUITE_FOLDER"]
    command = [f"{place}/run", f"{place}/bin/{program}", "-m", model, "-ngl", str(layers), *options]
    # ggml loads its backends from the folder that it is started in.
    done = subprocess.run(command, cwd=f"{place}/lib/ggml/backends0", env=environment, capture_output=True)
    if done.returncode != 0:
        print(done.stderr.decode(errors="replace"))
        raise SystemExit(f"failed {program}: status {done.returncode}")
    return done


def alone():
    """The environment without the emulated driver: there is no GPU."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "HSA_TOOLS_LIB")}


def tokens(folder, kind):
    """None if both give the same tokens, else what differs."""
    model = os.path.join(folder, "model.gguf")
    write(model, kind)
    options = ["-n", str(TOKENS), "to be"]
    gpu = run("llama-simple", model, 99, os.environ, *options)
    processor = run("llama-simple", model, 0, alone(), *options)
    if b"ROCm0" not in gpu.stderr:
        return "llama-simple did not use the GPU"
    return None if gpu.stdout == processor.stdout else f"{gpu.stdout!r}, expected {processor.stdout!r}"


def logits(folder, model, prompt, layers, environment):
    """What the model says of the token behind a prompt."""
    done = run(
        "llama-debug", os.path.join(folder, f"{model}.gguf"), layers, environment,
        "-p", prompt, "--save-logits", "--logits-output-dir", folder, "--log-verbosity", "5",
    )  # fmt: skip
    if layers > 0 and b"ROCm0" not in done.stdout + done.stderr:
        raise SystemExit("failed llama-debug: it did not use the GPU")
    return np.fromfile(os.path.join(folder, f"llamacpp-{model}.bin"), dtype=np.float32).astype(np.float64)


def errors(folder, kind):
    """None if the logits are near those of the exact weights, else how far they are."""
    write(os.path.join(folder, "model.gguf"), kind)
    write(os.path.join(folder, "exact.gguf"), kind, exact=True)
    for prompt in PROMPTS:
        found = logits(folder, "model", prompt, 99, os.environ)
        right = logits(folder, "exact", prompt, 0, alone())
        error = np.square(found - right).sum() / np.square(right).sum()
        if not error <= ERROR:
            return f"{prompt!r}: the logits have an error of {error:.2g}, expected at most {ERROR}"
    return None


def main():
    if len(sys.argv) == 1:
        print("\n".join(TYPES + OF_FEW_BITS))
        return
    kind = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        wrong = errors(folder, kind) if kind in OF_FEW_BITS else tokens(folder, kind)
    print(f"failed {kind}: {wrong}" if wrong else f"passed {kind}")


main()
