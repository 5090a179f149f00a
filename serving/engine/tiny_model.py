"""Base models with eight adapters each, made locally from nothing but the Python standard library's text.

Random weights of the Llama architecture: what they say is noise, what they cost is real. `builtin:tiny` has 3.7 M parameters,
`builtin:mid` 53.5 M (there the matrices outweigh the interpreter). No network, no downloads; the files are the ordinary ones
(safetensors, tokenizer.json, PEFT adapters), so the engine takes the same path as for any model.
"""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from serving.engine.adapter_files import appear
from serving.wire.keys import CONFIG_FILE, WEIGHTS_FILE

VERSION: Final = "1"
"""Of the recipe below: another one rebuilds what an older one made."""
BUILTIN_BASE: Final = "builtin:tiny"
BUILTIN_MID: Final = "builtin:mid"
BUILTIN_ADAPTER: Final = "builtin:adapter/"
RANKS: Final = (8, 8, 16, 16, 32, 32, 64, 64)

_VOCAB = 2048
_INIT_STD = 0.05
_CORPUS_FILES = 150
_SPECIAL = ("<|pad|>", "<|bos|>", "<|eos|>", "<|system|>", "<|user|>", "<|assistant|>")
_CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of one built-in model; `name` is its directory's, before the recipe's version."""

    name: str
    hidden: int
    inter: int
    layers: int
    heads: int
    kv_heads: int

    @property
    def head(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads

    @property
    def projections(self) -> dict[str, tuple[str, int, int]]:
        """Projection -> (block, inputs, outputs)."""
        kv = self.kv_heads * self.head
        return {
            "q_proj": ("self_attn", self.hidden, self.hidden),
            "k_proj": ("self_attn", self.hidden, kv),
            "v_proj": ("self_attn", self.hidden, kv),
            "o_proj": ("self_attn", self.hidden, self.hidden),
            "gate_proj": ("mlp", self.hidden, self.inter),
            "up_proj": ("mlp", self.hidden, self.inter),
            "down_proj": ("mlp", self.inter, self.hidden),
        }


TINY: Final = Shape("tiny-llama", hidden=256, inter=512, layers=4, heads=4, kv_heads=4)
MID: Final = Shape("mid-llama", hidden=768, inter=2048, layers=8, heads=12, kv_heads=4)
SHAPES: Final = {BUILTIN_BASE: TINY, BUILTIN_MID: MID}


@dataclass(frozen=True, slots=True)
class TinyModel:
    """Where a model and its eight adapters are; `adapter_paths[n]` has rank `RANKS[n]`."""

    base_path: Path
    adapter_paths: tuple[Path, ...]


def is_builtin(path: str) -> bool:
    """Whether a catalog path means something made here."""
    return path.startswith("builtin:")


def builtin_path(path: str, tiny: TinyModel) -> Path:
    """The directory behind a built-in base (`tiny` is what it was made to) or `builtin:adapter/N`; ValueError for any other."""
    if path in SHAPES:
        return tiny.base_path
    number = path.removeprefix(BUILTIN_ADAPTER)
    if path.startswith(BUILTIN_ADAPTER) and number.isdecimal() and int(number) < len(tiny.adapter_paths):
        return tiny.adapter_paths[int(number)]
    raise ValueError(
        f"unknown builtin path {path!r}: there are {', '.join(SHAPES)} and {BUILTIN_ADAPTER}0 to {len(RANKS) - 1}"
    )


def make_builtin(base: str, directory: Path, progress: Callable[[str], None] = lambda _: None) -> TinyModel:
    """Make the built-in model that a catalog names as its base, as `make_tiny_model`; ValueError when there is none."""
    if base not in SHAPES:
        raise ValueError(f"unknown builtin base model {base!r}: there are {', '.join(SHAPES)}")
    return make_tiny_model(directory, progress, SHAPES[base])


def make_tiny_model(
    directory: Path, progress: Callable[[str], None] = lambda _: None, shape: Shape = TINY
) -> TinyModel:
    """Make the model under `directory`, or find it there; some seconds the first time, nothing afterwards.

    It appears whole or not at all, also when two processes make it at once. `progress` gets a line per phase.
    """
    home = directory / f"{shape.name}-{VERSION}"
    if not home.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{shape.name}-", dir=directory))
        try:
            _build(work, progress, shape)
            work.chmod(0o755)
            appear(work, home)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return TinyModel(home / "base", tuple(home / "adapters" / _adapter_name(n, rank) for n, rank in enumerate(RANKS)))


def _adapter_name(number: int, rank: int) -> str:
    return f"adapter-{number}-r{rank}"


def _build(work: Path, progress: Callable[[str], None], shape: Shape) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    progress("training the tokenizer")
    _write_tokenizer(work / "base")
    progress("drawing the weights")
    _write_base(work / "base", shape)
    for number, rank in enumerate(RANKS):
        progress(f"drawing adapter {number} (rank {rank})")
        _write_adapter(work / "adapters" / _adapter_name(number, rank), number, rank, shape)


def _write_tokenizer(target: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    corpus = sorted(str(file) for file in Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:_CORPUS_FILES]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCAB, special_tokens=list(_SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train(corpus, trainer)
    target.mkdir(parents=True)
    tokenizer.save(str(target / "tokenizer.json"))
    _write_json(
        target / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": _VOCAB,
            "pad_token": _SPECIAL[0],
            "bos_token": _SPECIAL[1],
            "eos_token": _SPECIAL[2],
            "additional_special_tokens": list(_SPECIAL[3:]),
            "chat_template": _CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
        },
    )


def _write_base(target: Path, shape: Shape) -> None:
    import torch
    from safetensors.torch import save_file

    noise = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Any:
        return (torch.randn(*shape, generator=noise) * _INIT_STD).to(torch.bfloat16)

    ones = torch.ones(shape.hidden, dtype=torch.bfloat16)
    weights = {
        "model.embed_tokens.weight": drawn(_VOCAB, shape.hidden),
        "lm_head.weight": drawn(_VOCAB, shape.hidden),
        "model.norm.weight": ones,
    }
    for layer in range(shape.layers):
        at = f"model.layers.{layer}"
        for name, (block, inputs, outputs) in shape.projections.items():
            weights[f"{at}.{block}.{name}.weight"] = drawn(outputs, inputs)
        weights[f"{at}.input_layernorm.weight"] = ones.clone()
        weights[f"{at}.post_attention_layernorm.weight"] = ones.clone()
    save_file(weights, str(target / "model.safetensors"), metadata={"format": "pt"})
    _write_json(
        target / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": "bfloat16",
            "vocab_size": _VOCAB,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.inter,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head,
            "hidden_act": "silu",
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "initializer_range": _INIT_STD,
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": False,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    )
    _write_json(target / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})


def _write_adapter(target: Path, number: int, rank: int, shape: Shape) -> None:
    import torch
    from safetensors.torch import save_file

    noise = torch.Generator().manual_seed(100 + number)
    weights = {}
    for layer in range(shape.layers):
        for name, (block, inputs, outputs) in shape.projections.items():
            at = f"base_model.model.model.layers.{layer}.{block}.{name}"
            lora_a = torch.randn(rank, inputs, generator=noise) / inputs**0.5
            lora_b = torch.randn(outputs, rank, generator=noise) * _INIT_STD
            weights[f"{at}.lora_A.weight"] = lora_a.to(torch.bfloat16)
            weights[f"{at}.lora_B.weight"] = lora_b.to(torch.bfloat16)
    target.mkdir(parents=True)
    save_file(weights, str(target / WEIGHTS_FILE), metadata={"format": "pt"})
    _write_json(
        target / CONFIG_FILE,
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": shape.name,
            "inference_mode": True,
            "r": rank,
            "lora_alpha": 2 * rank,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": False,
            "init_lora_weights": True,
            "modules_to_save": None,
            "rank_pattern": {},
            "alpha_pattern": {},
            "use_dora": False,
            "use_rslora": False,
            "target_modules": sorted(shape.projections),
        },
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
