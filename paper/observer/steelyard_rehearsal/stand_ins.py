"""Stand-ins for what is not on this machine. Nothing is downloaded; each stand-in is listed as a substitution.

    a checkpoint   a file of its tensors' names, types and shapes, with a hole of the disk for their values: it is read as a real one
                   is, quantised and placed by the same code (--weights none: always; absent: where there is no checkpoint)
    a configuration  of a model that steelyard knows (data/models), by its name on the hub
    a tokenizer    of the model's vocabulary, one token a byte          with --data random:LENGTH alone
    a data set     of texts of LENGTH tokens                            with --data random:LENGTH alone

What cannot be stood in for is named, with what to do.
"""

import functools
import json
import os
import re
import sys

from . import values
from .imports import when_imported

missing = []  # what a script asked for that is not there, for the report


def wait():
    when_imported("transformers.modeling_utils", _models)
    when_imported("transformers.configuration_utils", _configurations)
    when_imported("transformers.tokenization_utils_base", _tokenizers)
    when_imported("transformers.models.auto.tokenization_auto", _auto_tokenizers)
    when_imported("datasets.load", _datasets)
    when_imported("datasets", _datasets)


def tokens():
    """Of a random sample; 0: --data was not said."""
    return int(os.environ.get("STEELYARD_DATA") or 0)


def _folder_of(name):
    path = os.path.join(os.environ["STEELYARD_REHEARSAL"], "..", "stand-ins", f"{os.getpid()}", name.replace("/", "--"))
    return os.path.abspath(path)


# ---- configurations ----------------------------------------------------------------------------------------------------------

def known_configuration(name):
    """config.json of a model that steelyard knows by its name on the hub."""
    folder = os.path.join(os.environ["STEELYARD_REHEARSAL"], "..", "models")
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, file)) as text:
            model = json.load(text)
        names = [model.get("hub_id"), *model.get("same_shape", ()), model.get("name")]
        if name.lower() in (other.lower() for other in names if other):
            return model["config"]
    return None


def _is_folder(name):
    return os.path.isdir(str(name))


def stand_in(name, config):
    """A folder that is the model as far as its configuration goes."""
    folder = _folder_of(str(name))
    if not os.path.isdir(folder):
        os.makedirs(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
    return folder


def _configurations(module):
    real = module.PreTrainedConfig if hasattr(module, "PreTrainedConfig") else module.PretrainedConfig
    get = real.get_config_dict.__func__

    def get_config_dict(cls, name, **named):
        try:
            return get(cls, name, **named)
        except OSError:
            config = known_configuration(str(name))
            if config is None:
                missing.append(f"the configuration of {name} is not on this machine: hf download {name} --include '*.json' brings it")
                raise
            values.substituted(f"the configuration of {name}: steelyard's own of that name", 3)
            return {"torch_dtype": "bfloat16", "architectures": _architectures(config), **config}, {}

    real.get_config_dict = classmethod(get_config_dict)


def _architectures(config):
    """The class with a head, by what transformers has for this type; our configurations hold sizes alone."""
    from transformers.models.auto import modeling_auto
    for table in ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
                  "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "MODEL_MAPPING_NAMES"):
        found = getattr(modeling_auto, table, {}).get(config.get("model_type"))
        if found:
            return [found] if isinstance(found, str) else [found[0]]
    return None


# ---- checkpoints -------------------------------------------------------------------------------------------------------------

_WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth)(\.index\.json)?$")
_TYPES = {"torch.float32": ("F32", 4), "torch.float16": ("F16", 2), "torch.bfloat16": ("BF16", 2), "torch.int64": ("I64", 8),
          "torch.int32": ("I32", 4), "torch.uint8": ("U8", 1), "torch.int8": ("I8", 1), "torch.bool": ("BOOL", 1),
          "torch.float64": ("F64", 8), "torch.float8_e4m3fn": ("F8_E4M3", 1)}


def write_holes(path, tensors):
    """A safetensors file of {name: (shape, type)}: its header, and a hole for the values."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, kind) in tensors.items():
        letters, width = _TYPES[str(kind)]
        size = width
        for length in shape:
            size *= length
        header[name] = {"dtype": letters, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


def has_weights(name, named):
    """On this machine, in a folder or in the hub's cache."""
    if _is_folder(name):
        folder = os.path.join(str(name), named.get("subfolder") or "")
        return any(_WEIGHTS.search(file) for file in os.listdir(folder))
    from transformers.utils import cached_file
    for file in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"):
        try:
            if cached_file(str(name), file, local_files_only=True, subfolder=named.get("subfolder") or "",
                           _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False,
                           _raise_exceptions_for_gated_repo=False):
                return True
        except Exception:  # whatever a version of the hub's code says: it is not there
            continue
    return False


def _models(module):
    import torch
    real = module.PreTrainedModel.from_pretrained.__func__

    def from_pretrained(cls, name, *words, **named):
        wanted = os.environ.get("STEELYARD_WEIGHTS")
        if name is None or wanted == "there" or (wanted != "none" and has_weights(name, named)):
            return real(cls, name, *words, **named)
        config = named.get("config")
        if config is None or isinstance(config, (str, os.PathLike)):
            config = cls.config_class.from_pretrained(config or name, trust_remote_code=named.get("trust_remote_code"))
        plain = {key: value for key, value in config.to_dict().items() if key != "quantization_config"}
        folder = stand_in(name, plain)
        path = os.path.join(folder, "model.safetensors")
        if not os.path.exists(path):
            write_holes(path, _tensors_of(torch, cls, config))
        values.substituted(f"the weights of {name}: none, of their shapes", 2)
        return real(cls, folder, *words, **{key: value for key, value in named.items() if key not in ("revision", "subfolder")})

    module.PreTrainedModel.from_pretrained = classmethod(from_pretrained)


def _tensors_of(torch, cls, config):
    """What the checkpoint of a model would hold, in the type of its configuration; a tied tensor once."""
    import copy
    config = copy.deepcopy(config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    kind = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or torch.bfloat16
    kind = getattr(torch, kind) if isinstance(kind, str) else kind
    with torch.device("meta"):
        model = cls(config)
    seen, found = set(), {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = (tuple(tensor.shape), kind if tensor.is_floating_point() else tensor.dtype)
    return found


# ---- tokenizers --------------------------------------------------------------------------------------------------------------

_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
             "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
_SPECIAL = ("<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>")


def write_tokenizer(folder, size):
    """One token a byte, and as many words as the model has, so that its embeddings keep their size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate(letters)}
    for word in _SPECIAL:
        vocabulary[word] = len(vocabulary)
    while len(vocabulary) < size:
        vocabulary[f"<|unused {len(vocabulary)}|>"] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(_SPECIAL))
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": _SPECIAL[0], "pad_token": _SPECIAL[1],
                   "bos_token": _SPECIAL[0], "chat_template": _TEMPLATE, "model_max_length": 1 << 20}, file)


def _stand_in_tokenizer(name, error):
    from transformers import AutoConfig, PreTrainedTokenizerFast
    if not tokens():
        missing.append(f"the tokenizer of {name} is not on this machine: hf download {name} --include 'token*' brings it, "
                       "or --data random:2048 stands in for it")
        raise error
    try:
        config = AutoConfig.from_pretrained(name)
        size = getattr(config.get_text_config(), "vocab_size", 32000)
    except Exception:  # a tokenizer of its own, of no model
        size = 32000
    folder = _folder_of(f"tokenizer--{name}")
    if not os.path.isdir(folder):
        write_tokenizer(folder, size)
    values.substituted(f"the tokenizer of {name}: one token a byte", 4)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def _auto_tokenizers(module):
    real = module.AutoTokenizer.from_pretrained.__func__

    def from_pretrained(cls, name, *words, **named):
        try:
            return real(cls, name, *words, **named)
        except (OSError, ValueError, ImportError) as error:  # what it says where files are missing differs by version
            return _stand_in_tokenizer(name, error)

    module.AutoTokenizer.from_pretrained = classmethod(from_pretrained)


def _tokenizers(module):
    base = module.PreTrainedTokenizerBase
    real = base.from_pretrained.__func__

    def from_pretrained(cls, name, *words, **named):
        try:
            return real(cls, name, *words, **named)
        except OSError as error:
            if _is_folder(name):
                raise
            return _stand_in_tokenizer(name, error)

    base.from_pretrained = classmethod(from_pretrained)


# ---- data sets ---------------------------------------------------------------------------------------------------------------

ROWS = 1024


def _columns():
    """By what the script trains with."""
    with_names = " ".join(vars(sys.modules["__main__"]))
    words = "word " * (tokens() // 5 + 1)
    text = words[:tokens()]
    half, rest = text[:tokens() // 2], text[tokens() // 2:]
    if re.search(r"(DPO|ORPO|CPO|SimPO|XPO|NashMD)", with_names):
        return {"prompt": half, "chosen": rest, "rejected": rest}
    if "Reward" in with_names and "GRPO" not in with_names:
        return {"chosen": text, "rejected": text}
    if "KTO" in with_names:
        return {"prompt": half, "completion": rest, "label": True}
    if re.search(r"(GRPO|RLOO|PPO|OnlineDPO)", with_names):
        return {"prompt": half, "solution": "1", "answer": "1"}
    return {"text": text}


def random_data_set(name, split, streaming):
    import datasets
    values.substituted(f"the data set {name}: texts of {tokens()} tokens", 3)
    columns = _columns()
    table = datasets.Dataset.from_dict({column: [value] * ROWS for column, value in columns.items()})
    if streaming:
        table = table.to_iterable_dataset()
    if split is not None:
        return table
    kind = datasets.IterableDatasetDict if streaming else datasets.DatasetDict
    return kind({"train": table, "test": table, "validation": table})


def _datasets(module):
    real = getattr(module, "load_dataset", None)
    if real is None or hasattr(real, "_steelyard"):
        return

    @functools.wraps(real)
    def load_dataset(path, *words, split=None, streaming=False, **named):
        try:
            return real(path, *words, split=split, streaming=streaming, **named)
        except Exception as error:  # offline, a version of the hub's code says it in its own way
            if not tokens():
                missing.append(f"the data set {path} is not on this machine: hf download --repo-type dataset {path} brings it, "
                               "or --data random:2048 stands in for it")
                raise
            return random_data_set(path, split, streaming) if not isinstance(error, TypeError) else _reraise(error)

    load_dataset._steelyard = True
    module.load_dataset = load_dataset


def _reraise(error):
    raise error
