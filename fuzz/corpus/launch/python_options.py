from transformers import TrainingArguments
args = TrainingArguments(output_dir="out", bf16=True, **options)
model = AutoModelForCausalLM.from_pretrained(config.model_name)
