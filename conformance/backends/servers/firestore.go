//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// FirestoreJar is the environment variable that names the jar of the Firestore emulator,
// where it is not in the Google Cloud SDK of the gcloud in the PATH.
const FirestoreJar = "WEIR_FIRESTORE_JAR"

// Firestore starts Google's emulator. It keeps everything in memory; each project is a
// database of its own.
func Firestore(ctx context.Context) (*Process, error) {
	java, jar, err := firestoreProgram()
	if err != nil {
		return nil, err
	}
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	p := &Process{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir, ready: firestoreReady,
		argv: []string{
			java, "-Duser.language=en", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx768m", "-cp", jar,
			"com.google.cloud.datastore.emulator.firestore.CloudFirestore", "--host=127.0.0.1", "--port=" + strconv.Itoa(port),
		},
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// firestoreProgram finds Java and the emulator, or says what to do.
func firestoreProgram() (java, jar string, err error) {
	const advice = "run scripts/servers/firestore.sh, or name running ones in WEIR_TEST_FIRESTORE=name=firestore://project/collection?emulator=host:port"
	java, err = exec.LookPath("java")
	if err != nil {
		return "", "", fmt.Errorf("no Java for the Firestore emulator: %w; %s", err, advice)
	}
	jar = os.Getenv(FirestoreJar)
	if jar == "" {
		gcloud, err := exec.LookPath("gcloud")
		if err == nil {
			gcloud, err = filepath.EvalSymlinks(gcloud)
		}
		if err != nil {
			return "", "", fmt.Errorf("no Google Cloud SDK and no %s: %w; %s", FirestoreJar, err, advice)
		}
		sdk := filepath.Dir(filepath.Dir(gcloud))
		jar = filepath.Join(sdk, "platform", "cloud-firestore-emulator", "cloud-firestore-emulator.jar")
	}
	if _, err := os.Stat(jar); err != nil { //nolint:gosec // the user names the file
		return "", "", fmt.Errorf("no Firestore emulator: %w; %s", err, advice)
	}
	return java, jar, nil
}

// firestoreReady asks over HTTP, which the emulator speaks on the port of gRPC.
func firestoreReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the emulator says %s", res.Status)
	}
	return nil
}
