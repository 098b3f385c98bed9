//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The variables that name other programs than those that are found without them.
const (
	DynaliteProgram = "WEIR_DYNALITE"    // its cli.js
	MotoProgram     = "WEIR_MOTO_SERVER" // the program
)

// survive keeps dynalite alive when a client gives up in the middle of a request: it throws
// the error of that connection, which nobody catches.
const survive = `data:text/javascript,process.on("uncaughtException",e=>{if(e.code!=="ECONNRESET"){console.error(e);process.exit(1)}})`

// Dynalite starts the emulator of DynamoDB that checks requests as strictly as the service.
// It keeps tables in memory, and does not tell regions or credentials apart.
func Dynalite(ctx context.Context) (*Process, error) { return startDynalite(ctx, false) }

// DynaliteOnDisk is Dynalite with its tables in files, which Kill and Restart leave as they are.
func DynaliteOnDisk(ctx context.Context) (*Process, error) { return startDynalite(ctx, true) }

func startDynalite(ctx context.Context, onDisk bool) (*Process, error) {
	script, err := dynaliteScript()
	if err != nil {
		return nil, err
	}
	return startDynamo(ctx, func(port, dir string) ([]string, error) {
		argv := []string{
			"node", "--import", survive, script, "--host", "127.0.0.1", "--port", port,
			"--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0",
		}
		if onDisk {
			argv = append(argv, "--path", filepath.Join(dir, "tables"))
		}
		return argv, nil
	})
}

func dynaliteScript() (string, error) {
	const advice = "run scripts/servers/dynamo/setup.sh, or name running servers in WEIR_TEST_DYNAMODB=name=url,name=url"
	script := os.Getenv(DynaliteProgram)
	if script == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		script = filepath.Join(cache, "weir", "dynalite", "node_modules", "dynalite", "cli.js")
	}
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("no dynalite: %w; install Node.js, then %s", err, advice)
	}
	if _, err := os.Stat(script); err != nil { //nolint:gosec // who runs the tests names the file
		return "", fmt.Errorf("no dynalite: %w; %s", err, advice)
	}
	return script, nil
}

// oneWriter is read by Python when it starts. Moto looks at the condition of a write and
// writes in two steps, with nothing that keeps another thread out in between.
const oneWriter = `import functools, threading
try:
    from moto.dynamodb.models import DynamoDBBackend as backend
except ImportError:
    pass
else:
    lock = threading.RLock()
    def locked(f):
        @functools.wraps(f)
        def g(*args, **named):
            with lock:
                return f(*args, **named)
        return g
    for name in ("put_item", "delete_item", "update_item"):
        setattr(backend, name, locked(getattr(backend, name)))
`

// Moto starts the emulator of DynamoDB that has most of the service's functions. It keeps
// tables in memory, apart for each region.
func Moto(ctx context.Context) (*Process, error) {
	name := os.Getenv(MotoProgram)
	if name == "" {
		name = "moto_server"
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("no moto: %w; pip install 'moto[server]', name it in %s, or name running servers in WEIR_TEST_DYNAMODB=name=url,name=url", err, MotoProgram)
	}
	return startDynamo(ctx, func(port, dir string) ([]string, error) {
		path := "PYTHONPATH=" + dir + string(os.PathListSeparator) + os.Getenv("PYTHONPATH")
		err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(oneWriter), 0o600)
		return []string{"env", path, program, "-H", "127.0.0.1", "-p", port}, err
	})
}

// startDynamo starts the program that command names for a port and a folder for its files.
func startDynamo(ctx context.Context, command func(port, dir string) ([]string, error)) (*Process, error) {
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	argv, err := command(strconv.Itoa(port), dir.path)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	p := &Process{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), argv: argv, dir: dir, ready: dynamoReady}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// dynamoReady lists the tables. The signature is made up: no emulator checks it.
func dynamoReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
	r.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/"+now.Format("20060102")+
		"/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature="+strings.Repeat("0", 64))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("the server says %s: %s", resp.Status, body)
	}
	return nil
}
