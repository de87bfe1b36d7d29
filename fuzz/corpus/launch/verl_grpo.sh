python3 -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo data.max_prompt_length=512 data.max_response_length=1024 \
  actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
  trainer.n_gpus_per_node=8 trainer.nnodes=2 $@
