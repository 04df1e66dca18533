#!/bin/bash
# Trains a tokenizer on a corpus and encodes the corpus with it, on the machines of a Slurm cluster:
#
#   count (an array job) → train → encode (an array job) → merge
#
#   INPUT="corpus/*.parquet" OUT=/shared/tokens SHARDS=64 pipelines/slurm.sh submit
#
# All machines must see INPUT, OUT and the program under the same paths. Each task of an array does one shard, which
# follows from the list of input files alone, so tasks need nothing from each other. The files of INPUT must not change
# until the last task has ended.
#
#   submit                        queue all steps; each starts when those before it have succeeded
#   count, train, encode, merge   do one step; count and encode do shard number SLURM_ARRAY_TASK_ID
#   here                          do all steps on this machine, without Slurm
#
# A task that fails or is requeued is started again by the same command: a shard that was being encoded goes on, all
# other steps start over. Partition, account and the like come from the variables that sbatch reads: SBATCH_PARTITION, …
set -euo pipefail

: "${TOKENMILL:=tokenmill}"            # the program
: "${INPUT:?a pattern in quotes, such as \"corpus/*.parquet\"}"
: "${OUT:?a folder that all machines see}"
: "${SHARDS:=16}"                      # parts of the corpus, at least as many as machines
: "${COLUMN:=text}"                    # the column with the text
: "${SPLIT:=gpt4}"                     # how text is split into pre-tokens
: "${VOCAB_SIZE:=32768}"               # the number of tokens
: "${EOS:=<|endoftext|>}"              # the special token after each document
: "${CPUS:=16}"                        # processors of a task
: "${MEMORY:=32G}"                     # memory of a task
export TOKENMILL INPUT OUT SHARDS COLUMN SPLIT VOCAB_SIZE EOS

count() {
    mkdir -p "$OUT/counts"
    "$TOKENMILL" count "$INPUT" --column "$COLUMN" --split "$SPLIT" --special-token "$EOS" \
        --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" -o "$OUT/counts/$SLURM_ARRAY_TASK_ID-of-$SHARDS.parquet"
}

train() {
    "$TOKENMILL" merge-counts "$OUT"/counts/*-of-"$SHARDS".parquet -o "$OUT/counts.parquet"
    "$TOKENMILL" train --from-counts "$OUT/counts.parquet" -o "$OUT/tokenizer" --vocab-size "$VOCAB_SIZE" --eos "$EOS"
}

encode() {
    "$TOKENMILL" encode "$INPUT" --column "$COLUMN" -t "$OUT/tokenizer" --eos "$EOS" \
        --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" -o "$OUT/shards/$SLURM_ARRAY_TASK_ID-of-$SHARDS"
}

# The data set has hard links to the files of the shards, whose folders are no longer needed after that.
merge() {
    "$TOKENMILL" merge "$OUT"/shards/*-of-"$SHARDS" -o "$OUT/tokens"
}

# Queues a step after the job $2, as an array of $3 tasks, and prints the number of the job.
queue() {
    local options=(--parsable "--job-name=tokenmill-$1" "--output=$OUT/log/%x-%j.txt")
    options+=("--cpus-per-task=$CPUS" "--mem=$MEMORY" "--kill-on-invalid-dep=yes")
    [[ -z "$2" ]] || options+=("--dependency=afterok:$2")
    [[ -z "$3" ]] || options+=("--array=1-$3")
    sbatch "${options[@]}" "$0" "$1" | cut -d ";" -f 1
}

submit() {
    mkdir -p "$OUT/log"
    local counted trained encoded
    counted=$(queue count "" "$SHARDS")
    trained=$(queue train "$counted" "")
    encoded=$(queue encode "$trained" "$SHARDS")
    queue merge "$encoded" ""
}

here() {
    for ((SLURM_ARRAY_TASK_ID = 1; SLURM_ARRAY_TASK_ID <= SHARDS; SLURM_ARRAY_TASK_ID++)); do count; done
    train
    for ((SLURM_ARRAY_TASK_ID = 1; SLURM_ARRAY_TASK_ID <= SHARDS; SLURM_ARRAY_TASK_ID++)); do encode; done
    merge
}

case "${1-}" in
    submit | count | train | encode | merge | here) "$1" ;;
    *)
        echo "usage: $0 submit|count|train|encode|merge|here" >&2
        exit 2
        ;;
esac
