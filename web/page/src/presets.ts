// The examples that the page opens with, named as people speak. Each is a fragment of the address.

export interface Preset {
  words: string;
  fragment: string;
}

export const presets: Preset[] = [
  {
    words: "8B on 8 × H100, FSDP2",
    fragment: "#m=llama-3.1-8b&on=8xh100-sxm-80gb&engine=fsdp2&seq=16384&gbs=64",
  },
  {
    words: "7B on one 24 GB card, QLoRA",
    fragment:
      "#m=llama-2-7b&on=1xrtx-4090&engine=ddp&seq=2048&mbs=1&recompute=full&optimizer=adamw-paged-8bit&adapter.method=lora&adapter.rank=16&adapter.base=nf4",
  },
  {
    words: "7B on one 80 GB card, all parameters",
    fragment: "#m=qwen2.5-7b&on=1xa100-sxm-80gb&engine=ddp&seq=4096&mbs=1",
  },
  {
    words: "14B with DeepSpeed ZeRO-3 and offload",
    fragment:
      "#m=qwen3-14b&on=4xa100-sxm-40gb&engine=deepspeed&zero=3&seq=4096&mbs=1&offload.optimizer=cpu&recompute=full",
  },
  {
    words: "70B on 64 × H100, Megatron",
    fragment:
      "#m=llama-3.1-70b&on=64xh100-sxm-80gb&engine=megatron&seq=8192&mbs=1&gbs=128&tp=8&pp=4&zero=1",
  },
  {
    words: "Mixtral 8x7B, expert parallel",
    fragment:
      "#m=mixtral-8x7b&on=16xh100-sxm-80gb&engine=megatron&seq=4096&mbs=1&gbs=128&ep=8&pp=2&zero=1",
  },
  {
    words: "32B on 16 × H200, 128k tokens",
    fragment:
      "#m=qwen2.5-32b&on=16xh200-sxm&engine=fsdp2&seq=131072&mbs=1&cp=8&recompute=full&loss=chunked",
  },
  {
    words: "405B on 1,024 × H100",
    fragment:
      "#m=llama-3.1-405b&on=1024xh100-sxm-80gb&engine=megatron&seq=8192&mbs=1&gbs=512&tp=8&pp=16&zero=1",
  },
];
