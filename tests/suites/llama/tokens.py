"""A language model with random weights, made here, gives the same tokens on the GPU as on the processor.

Without an argument the types of weights are printed, one a line; with a type that model is run.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np

# Not Q4_0 and its like: there ggml's kernels for GPUs take the sum of a block's activations before these are rounded to
# eight bits, those for processors after it. Between tokens of random weights such differences decide.
TYPES = ["F32", "F16", "Q8_0"]
LAYERS, HEADS, WIDTH, INNER, CONTEXT = 2, 4, 128, 256, 256
TOKENS = 12


def write(path, kind):
    """The file of a model in the form of Llama, whose vocabulary is the 256 bytes."""
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
        writer.add_tensor(name, gguf.quants.quantize(values, quantization), raw_dtype=quantization)

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


def run(model, layers, environment):
    place = os.environ["SUITE_FOLDER"]
    command = [f"{place}/run", f"{place}/bin/llama-simple", "-m", model, "-n", str(TOKENS), "-ngl", str(layers), "to be"]
    # ggml loads its backends from the folder that it is started in.
    done = subprocess.run(command, cwd=f"{place}/lib/ggml/backends0", env=environment, capture_output=True)
    if done.returncode != 0:
        print(done.stderr.decode(errors="replace"))
        raise SystemExit(f"failed llama-simple: status {done.returncode}")
    return done


def main():
    if len(sys.argv) == 1:
        print("\n".join(TYPES))
        return
    kind = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.gguf")
        write(model, kind)
        gpu = run(model, 99, os.environ)
        # Without the emulated driver there is no GPU.
        alone = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "HSA_TOOLS_LIB")}
        processor = run(model, 0, alone)
    if b"ROCm0" not in gpu.stderr:
        print(f"failed {kind}: llama-simple did not use the GPU")
    elif gpu.stdout != processor.stdout:
        print(f"failed {kind}: {gpu.stdout!r}, expected {processor.stdout!r}")
    else:
        print(f"passed {kind}: {processor.stdout!r}")


main()
