package dynamodb_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/config"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/dynamodb"
)

func Example() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	store, err := persistence.Open(ctx, "dynamodb://flow-states?region=us-east-1&endpoint=http://127.0.0.1:8000")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	_, err = store.SaveState(ctx, core.Snapshot{FlowID: "c-42", Method: "answer", State: []byte(`{"id":"c-42","turns":3}`)})
	if err != nil {
		log.Print(err)
		return
	}
	s, err := store.LoadState(ctx, "c-42")
	fmt.Println(s.Method, string(s.State), "revision", s.Revision, err)
}

// Open takes a client as the application has made it, with its credentials and retries.
func ExampleOpen() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	d, err := dynamodb.Open(ctx, dynamodb.Config{Client: awsdynamodb.NewFromConfig(cfg), Table: "flow-states"})
	if err != nil {
		log.Fatal(err)
	}
	// An operator's program, with the permissions for it.
	if err := d.Setup(ctx); err != nil {
		log.Fatal(err)
	}
	store := persistence.New(d)
	defer store.Close()
}
