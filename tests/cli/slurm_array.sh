#!/bin/bash
# slurm_array.sh TIDEMARK SBATCH SCENARIO OUT: starts a private Slurm of one node on the loopback
# interface, runs the job array into OUT and waits for it. Needs root, slurmctld, slurmd,
# slurm-client and munge.
set -euo pipefail
tidemark=$1 job=$2 scenario=$3 out=$4
folder=$(mktemp -d) host=$(hostname -s)
mkdir -p "$folder"/{state,spool,log,run}
control_port=$((20000 + RANDOM % 10000))
dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 status=none
chmod 400 "$folder/munge.key"
cat > "$folder/slurm.conf" <<CONF
ClusterName=local
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.socket
CredType=cred/munge
SlurmctldPort=$control_port
SlurmdPort=$((control_port + 1))
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
SchedulerParameters=sched_min_interval=50000,batch_sched_delay=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=local Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$folder/slurm.conf
end() {
  scontrol shutdown > /dev/null 2>&1 || true
  sleep 1
  if [[ -f $folder/run/munged.pid ]]; then kill "$(cat "$folder/run/munged.pid")" || true; fi
  rm -rf "$folder"
}
trap end EXIT
munged=$(command -v munged || echo /usr/sbin/munged)
"$munged" --force --key-file="$folder/munge.key" --socket="$folder/run/munge.socket" \
  --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" \
  --seed-file="$folder/run/munged.seed"
/usr/sbin/slurmctld -c
/usr/sbin/slurmd
for _ in $(seq 60); do
  [[ $(sinfo -h -o %T 2> /dev/null) == idle ]] && break
  sleep 0.5
done
TIDEMARK=$tidemark sbatch --wait --export=ALL,TIDEMARK="$tidemark" \
  --output="$folder/log/%A_%a.log" "$job" "$scenario" "$out" || { cat "$folder"/log/*_*.log >&2; exit 1; }
