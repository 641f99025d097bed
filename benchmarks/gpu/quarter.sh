#!/bin/sh
# What a GPU can show of turngate in a quarter of an hour: sh benchmarks/gpu/quarter.sh [--small] FOLDER
# A run of the lock with the default config, with rollouts ahead of the learner, and killed and begun again; sampler and
# learner together in two sizes; the ways of attention along trees. Each part has its own time and its output in FOLDER,
# and a part that fails stops no other; the exit code is 1 then. --small is for a machine without a GPU, which gets ten
# times as long. PYTHON names the interpreter, MODEL a pretrained model for which examples/real_model_demo.toml is run,
# too, without its controls.
set -u
small= size="--repeats 3" slow=1 killed_after=40
if [ "${1:-}" = --small ]; then
    shift
    small=1 size="--small --width 32 --layers 1 --repeats 1" slow=10 killed_after=20
fi
out=${1:?name a folder for what is found}
mkdir -p "$out" && [ ! -e "$out/lock.toml" ] || { echo "$out: name a folder without results" >&2; exit 2; }
failed=0

part() {  # name, most seconds, arguments of python
    name=$1 most=$2 began=$(date +%s) said=done; shift 2
    timeout $((most * slow)) "${PYTHON:-python}" "$@" >"$out/$name.txt" 2>&1 || { said="FAILED with $?"; failed=1; }
    echo "== $name: $said in $(($(date +%s) - began)) s"; tail -n 4 "$out/$name.txt"
}

cat >"$out/lock.toml" <<TOML
name = "lock"
folder = "$out/runs"
env = {id = "turngate/Lock-v1"}
policy = {turn_tokens = 8, context = 256, concurrency = 32}
warm_start = {episodes = 48, epochs = 4, episodes_per_batch = 8, lr = 5e-3}
train = {steps = 5, tasks_per_step = 4, group_size = 8, filters = []}
eval = {tasks = 4}
TOML
part lock 120 -m turngate train "$out/lock.toml"
part ahead 60 -m turngate train "$out/lock.toml" --name=ahead --train.ahead=1
timeout -s KILL $killed_after "${PYTHON:-python}" -m turngate train "$out/lock.toml" --name=killed --train.steps=60 \
    >"$out/killed.txt" 2>&1
[ $? = 137 ] || { echo "== killed: ended before it was killed, so nothing is resumed"; failed=1; }
part resumed 90 -m turngate train "$out/lock.toml" --name=killed --train.steps=60
part tiny 60 -m benchmarks.gpu.one_gpu --shape tiny --updates 1 --out "$out/tiny.json"
[ "$small" ] || part 0.6b 180 -m benchmarks.gpu.one_gpu --shape 0.6b --updates 2 --out "$out/0.6b.json"
part packing 240 -m benchmarks.packing $size --out "$out/packing.json"
[ "${MODEL:-}" ] && part real_model 240 -m turngate train examples/real_model_demo.toml "--model=$MODEL" \
    "--controls=[]" "--folder=$out/runs"
exit $failed
