package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/redis"
)

// Open takes a client as the application has made it, with its credentials and TLS.
func ExampleOpen() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	d, err := redis.Open(ctx, redis.Config{Client: client, Prefix: "shop:"})
	if err != nil {
		log.Print(err)
		return
	}
	store := persistence.New(d, persistence.WithTTL(24*time.Hour))
	_, err = store.SaveState(ctx, core.Snapshot{FlowID: "c-42", Method: "answer", State: []byte(`{"turn":1}`)})
	if err != nil {
		log.Print(err)
		return
	}
	snap, err := store.LoadState(ctx, "c-42")
	fmt.Println(string(snap.State), err)
}
