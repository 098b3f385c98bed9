//go:build unix

package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// ErrNoDocker is returned where no Docker engine answers.
var ErrNoDocker = errors.New("no Docker engine answers; start one, or run scripts/servers/setup.sh")

// Image is a server that comes in a container.
type Image struct {
	variable string // of the environment, with another image
	local    string // what scripts/servers/images.sh builds where no registry can be reached
	public   string
}

// Redis8 is a newer server than distributions have as a package.
func Redis8() Image {
	return Image{variable: "WEIR_REDIS_IMAGE", local: "weir/redis:8", public: "redis:8-alpine"}
}

// Valkey8 is the other server that speaks the protocol.
func Valkey8() Image {
	return Image{variable: "WEIR_VALKEY_IMAGE", local: "weir/valkey:8", public: "valkey/valkey:8-alpine"}
}

// ownerLabel marks containers of this package with the folder of their owner, whose end they
// do not survive for longer than until the next start.
const ownerLabel = "weir.servers.folder"

// redisPort is where a server listens inside its container.
const redisPort = "6379/tcp"

// Container is a server that runs in a container.
type Container struct {
	Addr string // host:port

	container testcontainers.Container
	dir       *folder
}

// StartContainer starts a Redis or Valkey server of an image, which is pulled if it is not
// there, and waits until it answers. Without an engine it returns ErrNoDocker.
func StartContainer(ctx context.Context, i Image) (*Container, error) {
	setDefault("TESTCONTAINERS_RYUK_DISABLED", "true") // newFolder and sweepContainers do its work
	if host := os.Getenv("DOCKER_HOST"); host == "" || strings.HasPrefix(host, "unix:") {
		setDefault("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	defer func() { _ = docker.Close() }()
	if _, err := docker.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	c := &Container{dir: dir}
	if err = sweepContainers(ctx, docker); err == nil {
		err = c.start(ctx, docker, i)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a container of %s: %w", i.public, err), c.Close())
	}
	return c, nil
}

// setDefault sets a variable that testcontainers-go reads, unless the user has.
func setDefault(variable, value string) {
	if os.Getenv(variable) == "" {
		_ = os.Setenv(variable, value)
	}
}

func (c *Container) start(ctx context.Context, docker *testcontainers.DockerClient, i Image) error {
	image := cmp.Or(os.Getenv(i.variable), i.public)
	if _, err := docker.ImageInspect(ctx, i.local); err == nil && os.Getenv(i.variable) == "" {
		image = i.local
	}
	port := network.MustParsePort(redisPort)
	running, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts(redisPort),
		testcontainers.WithLabels(map[string]string{ownerLabel: c.dir.path}),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			// The server has no password: nobody else gets in.
			h.PortBindings = network.PortMap{port: {network.PortBinding{HostIP: netip.MustParseAddr("127.0.0.1")}}}
		}))
	if running != nil {
		c.container = running
	}
	if err != nil {
		return err
	}
	host, err := running.Host(ctx)
	if err != nil {
		return err
	}
	mapped, err := running.MappedPort(ctx, redisPort)
	if err != nil {
		return err
	}
	c.Addr = net.JoinHostPort(host, strconv.Itoa(int(mapped.Num())))
	if err := eventually(ctx, "its answer", func() error { return redisReady(ctx, c.Addr) }); err != nil {
		return fmt.Errorf("%w\n%s", err, c.log())
	}
	return nil
}

// log returns the beginning of what the server has printed.
func (c *Container) log() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := c.container.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = r.Close() }()
	text, _ := io.ReadAll(io.LimitReader(r, tailBytes))
	return string(text)
}

// Close ends the server and removes the container.
func (c *Container) Close() error {
	var err error
	if c.container != nil {
		err = testcontainers.TerminateContainer(c.container, testcontainers.StopTimeout(0))
	}
	return errors.Join(err, c.dir.close())
}

// sweepContainers removes the containers whose owner's folder is gone.
func sweepContainers(ctx context.Context, docker *testcontainers.DockerClient) error {
	found, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", ownerLabel)})
	if err != nil {
		return err
	}
	for _, c := range found.Items {
		if _, err := os.Stat(c.Labels[ownerLabel]); errors.Is(err, os.ErrNotExist) {
			_, err := docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
