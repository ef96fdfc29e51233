#!/usr/bin/env bash
# A team's MLflow: runs in a PostgreSQL database, files in one folder.
#
# Usage: DATABASE=postgresql://user@host/mlflow ARTIFACTS=/shared/mlflow-artifacts \
#            cluster/mlflow_server.sh [--port 5000] [options of mlflow server]
#
# It listens on this machine alone, and asks nobody who he is: reach it through a tunnel
# (ssh -L 5000:127.0.0.1:5000 host), or put what does TLS and logins before it
# (docs/how-to/keeping_results.md). The database's password belongs into ~/.pgpass: an address shows
# in the environment of the process.
set -euo pipefail

: "${DATABASE:?must be the address of a PostgreSQL database, postgresql://user@host/mlflow}"
: "${ARTIFACTS:?must be the absolute folder that files go to, or a URI as s3://bucket/folder}"

export MLFLOW_DISABLE_TELEMETRY=true
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false # judges of language models, in processes of their own
export MLFLOW_BACKEND_STORE_URI="${DATABASE/#postgresql:/postgresql+psycopg:}"
export MLFLOW_ARTIFACTS_DESTINATION="$ARTIFACTS"
exec mlflow server --host 127.0.0.1 --workers 2 "$@"
