package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Cluster is a Redis Cluster on the loopback interface.
type Cluster struct {
	Nodes []*Server
}

// slots is how many hash slots a Cluster has.
const slots = 16384

// StartCluster starts n nodes without replicas, shares the slots out to them, and
// returns when all of them say that the cluster is complete. It needs a redis-server.
func StartCluster(n int) (*Cluster, error) {
	c := &Cluster{}
	for i := range n {
		node, err := Start("--cluster-enabled", "yes", "--cluster-node-timeout", "15000")
		if err != nil {
			c.Stop()
			return nil, err
		}
		node.Kind = fmt.Sprintf("node %d of a Redis Cluster of %d", i, n)
		c.Nodes = append(c.Nodes, node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.join(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("redistest: the cluster does not form: %w", err)
	}
	return c, nil
}

// Addrs returns where the nodes are.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// Stop ends all nodes and removes their data.
func (c *Cluster) Stop() {
	for _, node := range c.Nodes {
		node.Stop()
	}
}

// join makes the nodes know each other and serve their part of the slots.
func (c *Cluster) join(ctx context.Context) error {
	host, port, err := net.SplitHostPort(c.Nodes[0].Addr)
	if err != nil {
		return err
	}
	var clients []*redis.Client
	for i, node := range c.Nodes {
		client := redis.NewClient(&redis.Options{Addr: node.Addr})
		defer client.Close()
		clients = append(clients, client)
		from, to := slots*i/len(c.Nodes), slots*(i+1)/len(c.Nodes)-1
		errs := []error{
			client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(),
			client.ClusterAddSlotsRange(ctx, from, to).Err(),
		}
		if i > 0 {
			errs = append(errs, client.ClusterMeet(ctx, host, port).Err())
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	for _, client := range clients {
		if err := complete(ctx, client, len(clients)); err != nil {
			return err
		}
	}
	return nil
}

// complete waits until a node sees the whole cluster, and serves its part.
func complete(ctx context.Context, client *redis.Client, nodes int) error {
	for {
		info, err := client.ClusterInfo(ctx).Result()
		if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", nodes)) &&
			strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", slots)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w\n%s", errors.Join(ctx.Err(), err), info)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
