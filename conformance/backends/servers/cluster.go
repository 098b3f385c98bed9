//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// The shape of a cluster.
const (
	primaries  = 3
	totalSlots = 16384
)

// Cluster is a Redis cluster of three primaries, each with a replica.
type Cluster struct {
	Nodes []*Process // the primaries first, at the beginning
	dir   *folder
}

// StartCluster starts a cluster and waits until every node sees all others and every replica
// has its first copy: before that it would not be elected. args are options of redis-server
// for every node.
func StartCluster(ctx context.Context, args ...string) (*Cluster, error) {
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := c.start(ctx, args); err != nil {
		return nil, errors.Join(fmt.Errorf("start a Redis cluster: %w", err), c.Close())
	}
	return c, nil
}

// URL is the address for persistence.Open.
func (c *Cluster) URL() string {
	return "redis+cluster://" + c.Nodes[0].Addr + "?" + url.Values{"addr": c.addrs()[1:]}.Encode()
}

// Close ends all nodes and removes their files.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(append(errs, c.dir.close())...)
}

func (c *Cluster) start(ctx context.Context, args []string) error {
	buses := make([]string, 2*primaries)
	for i := range buses {
		bus, err := freePort()
		if err != nil {
			return err
		}
		buses[i] = strconv.Itoa(bus)
		dir, err := c.dir.sub("node" + strconv.Itoa(i))
		if err != nil {
			return err
		}
		n, err := startRedis(ctx, dir, append([]string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
			"--cluster-node-timeout", "1000", "--cluster-port", buses[i],
		}, args...)...)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
	}
	clients := make([]*goredis.Client, len(c.Nodes))
	for i, n := range c.Nodes {
		clients[i] = goredis.NewClient(&goredis.Options{Addr: n.Addr})
		defer func() { _ = clients[i].Close() }()
	}
	if err := join(ctx, clients, buses); err != nil {
		return err
	}
	return settle(ctx, clients)
}

// join gives each primary its slots, makes the nodes known to each other, and replicas of the
// second half.
func join(ctx context.Context, clients []*goredis.Client, buses []string) error {
	for i, client := range clients {
		if err := client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		if i < primaries {
			first, end := i*totalSlots/primaries, (i+1)*totalSlots/primaries
			if err := client.ClusterAddSlotsRange(ctx, first, end-1).Err(); err != nil {
				return err
			}
		}
		host, port, err := net.SplitHostPort(client.Options().Addr)
		if err != nil {
			return err
		}
		if err := clients[0].Do(ctx, "cluster", "meet", host, port, buses[i]).Err(); err != nil {
			return err
		}
	}
	for i, client := range clients[primaries:] {
		id, err := clients[i].Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return err
		}
		if err := eventually(ctx, "replicate", func() error { return client.ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until all nodes agree.
func settle(ctx context.Context, clients []*goredis.Client) error {
	for _, client := range clients {
		err := eventually(ctx, "node "+client.Options().Addr, func() error {
			info := client.ClusterInfo(ctx).Val()
			nodes := client.ClusterNodes(ctx).Val()
			replication := client.Info(ctx, "replication").Val()
			switch {
			case !strings.Contains(info, "cluster_state:ok"):
				return errors.New("the cluster is not complete")
			case strings.Count(nodes, "slave") != len(clients)-primaries || strings.Contains(nodes, "handshake"):
				return errors.New("it does not know all replicas")
			case strings.Contains(replication, "master_link_status:down"):
				return errors.New("it has no copy yet")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// PrimaryOf returns the node that holds a key now.
func (c *Cluster) PrimaryOf(ctx context.Context, key string) (*Process, error) {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.addrs()})
	defer func() { _ = client.Close() }()
	node, err := client.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		if n.Addr == node.Options().Addr {
			return n, nil
		}
	}
	return nil, fmt.Errorf("the primary %s is not one of this cluster", node.Options().Addr)
}

func (c *Cluster) addrs() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}
