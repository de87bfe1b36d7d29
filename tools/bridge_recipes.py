#!/usr/bin/env python3
"""What Megatron-Bridge's recipes for pretraining say of memory, as rows of src/formats/launch/bridge_recipes.def.

    bridge_recipes.py CHECKOUT > src/formats/launch/bridge_recipes.def

CHECKOUT is a checkout of github.com/NVIDIA-NeMo/Megatron-Bridge: src/megatron/bridge/recipes/*/. A recipe is a function of
assignments to `cfg`. One that decides anything else (a branch, a loop, a call that is not known here) has no row.
"""
import ast
import json
import pathlib
import sys

SECTIONS = {
    "model": "tensor_model_parallel_size pipeline_model_parallel_size virtual_pipeline_model_parallel_size context_parallel_size "
             "expert_model_parallel_size expert_tensor_parallel_size sequence_parallel transformer_impl recompute_granularity "
             "recompute_method recompute_num_layers recompute_modules cuda_graph_impl cuda_graph_scope attention_backend "
             "moe_token_dispatcher_type moe_permute_fusion cross_entropy_loss_fusion pipeline_model_parallel_layout "
             "fine_grained_activation_offloading cpu_offloading account_for_embedding_in_pipeline_split "
             "account_for_loss_in_pipeline_split num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage "
             "mtp_num_layers cp_comm_type moe_expert_capacity_factor moe_pad_expert_input_to_capacity moe_router_dtype "
             "microbatch_group_size_per_vp_stage attention_dropout cuda_graph_modules".split(),
    "train": ["global_batch_size", "micro_batch_size"],
    "dataset": ["seq_length"],
    "optimizer": "use_precision_aware_optimizer main_grads_dtype main_params_dtype exp_avg_dtype exp_avg_sq_dtype "
                 "use_distributed_optimizer optimizer_cpu_offload optimizer_offload_fraction".split(),
    "ddp": "overlap_grad_reduce overlap_param_gather use_distributed_optimizer use_megatron_fsdp grad_reduce_in_fp32 "
           "data_parallel_sharding_strategy num_distributed_optimizer_instances nccl_ub fsdp_double_buffer".split(),
}
# What makes another model, or another training, of the one on the hub.
OTHER = ("vocab_size position_embedding_type moe_layer_freq window_size params_dtype quant_recipe vit_gradient_checkpointing "
         "has_sound hf_model_id variable_seq_lengths").split()
# recipes/common.py, _pretrain_common.
COMMON = {"train": {"global_batch_size": 32, "micro_batch_size": 2}, "dataset": {"seq_length": 4096},
          "ddp": {"overlap_grad_reduce": True, "overlap_param_gather": True, "grad_reduce_in_fp32": True,
                  "use_distributed_optimizer": True},
          "mixed_precision": "bf16_mixed"}


class NotPlain(Exception):
    pass


def path_of(node):
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return list(reversed(names)) if isinstance(node, ast.Name) and node.id == "cfg" else None


def value_of(node, constants):
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
        return "torch." + node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bf16_mixed" and not node.args:
        return "bf16_mixed"
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise NotPlain from None


def hub_name(node):
    """The name in AutoBridge.from_hf_pretrained(NAME).get_model_config()."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "from_hf_pretrained":
            if call.args and isinstance(call.args[0], ast.Constant):
                return call.args[0].value
    raise NotPlain


def assign(said, path, node, constants):
    if path == ["model"]:
        said["hub"] = hub_name(node)
        return
    if path == ["mixed_precision"]:
        said["mixed_precision"] = value_of(node, constants)
        return
    if path[0] in ("mixed_precision", "peft") or path == ["dist", "use_megatron_fsdp"]:
        raise NotPlain
    if path[0] == "model" and (path[-1] in OTHER or path[-1].startswith("freeze_")):
        raise NotPlain
    if len(path) != 2 or path[1] not in SECTIONS.get(path[0], ()):
        return
    value = value_of(node, constants)
    section = said.setdefault(path[0], {})
    section.pop(path[1], None)
    if value is not None:
        section[path[1]] = value


def recipe(function, constants):
    said = json.loads(json.dumps(COMMON))
    begun = False
    for statement in function.body:
        if isinstance(statement, ast.Return):
            break
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Constant):
                continue
            raise NotPlain
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            raise NotPlain
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            call = statement.value
            if target.id == "cfg" and isinstance(call, ast.Call) and getattr(call.func, "id", "") == "_pretrain_common":
                begun = True
                continue
            raise NotPlain
        path = path_of(target)
        if path is None:
            raise NotPlain
        assign(said, path, statement.value, constants)
    if not begun or "hub" not in said:
        raise NotPlain
    # Types without a precision-aware optimizer, and shards without FSDP, decide nothing.
    optimizer, ddp = said.get("optimizer", {}), said["ddp"]
    if not optimizer.get("use_precision_aware_optimizer"):
        said["optimizer"] = {key: value for key, value in optimizer.items() if not key.endswith("_dtype")}
    if not ddp.get("use_megatron_fsdp"):
        ddp.pop("data_parallel_sharding_strategy", None)
    return said


def main(checkout):
    recipes = pathlib.Path(checkout) / "src/megatron/bridge/recipes"
    found, aliases = {}, {}
    for path in sorted(recipes.glob("**/*.py")):
        tree = ast.parse(path.read_text())
        constants = {}
        for node in tree.body:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant):
                constants[target.id] = node.value.value
            if isinstance(node, ast.ImportFrom):
                aliases.update({name.asname: name.name for name in node.names if name.asname})
            if isinstance(node, ast.FunctionDef) and node.name.endswith("_config") and not node.name.startswith("_"):
                try:
                    found[node.name] = recipe(node, constants)
                except NotPlain:
                    pass
    print("// Megatron-Bridge's recipes for pretraining by name, by tools/bridge_recipes.py (src/megatron/bridge/recipes, 0.7): "
          "RECIPE(name, what it says), ALIAS(older name, name).")
    for name, said in sorted(found.items()):
        print(f'RECIPE("{name}", R"({json.dumps(said, separators=(",", ":"))})")')
    for alias, name in sorted(aliases.items()):
        if name in found:
            print(f'ALIAS("{alias}", "{name}")')


main(sys.argv[1])
