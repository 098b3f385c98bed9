#!/usr/bin/env bash
# Finds what the tests of the Firestore driver start: Java and the emulator of the Google Cloud
# SDK. Installs the emulator where gcloud may, and says what to do where not. Downloads nothing
# if it is there.
set -euo pipefail

if ! command -v java >/dev/null; then
	echo "no Java: install a runtime of version 17 or later (Debian: apt-get install openjdk-17-jre-headless)" >&2
	exit 1
fi
if [[ -n "${WEIR_FIRESTORE_JAR:-}" ]]; then
	[[ -f "$WEIR_FIRESTORE_JAR" ]] || { echo "WEIR_FIRESTORE_JAR names no file" >&2; exit 1; }
	echo "Firestore emulator: $WEIR_FIRESTORE_JAR"
	exit 0
fi
if ! gcloud=$(command -v gcloud); then
	echo "no Google Cloud SDK: install it, or name the jar of the emulator in WEIR_FIRESTORE_JAR" >&2
	exit 1
fi
jar="$(dirname "$(dirname "$(readlink -f "$gcloud")")")/platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
if [[ ! -f "$jar" ]]; then
	gcloud components install cloud-firestore-emulator --quiet || {
		echo "gcloud could not install it (Debian: apt-get install google-cloud-cli-firestore-emulator)" >&2
		exit 1
	}
fi
echo "Firestore emulator: $jar"
