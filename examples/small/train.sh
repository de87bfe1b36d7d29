base=`pwd`
up=$(cd "$(dirname "$0")/.." && pwd)
here=$(dirname $(realpath "$0"))
above=$(dirname $here)
read -r -d '' words <<END
train.py --model_name_or_path gpt2 \
  --per_device_train_batch_size 2 \
  --deepspeed ${base}/ds.json
END
IFS=':' read -r nodes each rest <<< "2:4:a:b"
deepspeed --num_nodes $nodes --num_gpus $each $words --up $up/x --above $above/y --own $PWD/z --rest $rest
