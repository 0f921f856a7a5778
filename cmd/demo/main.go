// Command demo shows Tidemark working: three workers, live load, a worker killed halfway, and a
// check of every row in the end. It runs on the database that TIDEMARK_DATABASE_URL names or on the
// private one of the checkout.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark-go/tidemark/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	os.Exit(run(ctx))
}

func run(ctx context.Context) (status int) {
	config, err := parse(os.Args[1:])
	if err != nil {
		return complain(2, err)
	}
	result, err := demo.Run(ctx, config)
	if ctx.Err() != nil {
		return complain(130, "interrupted")
	}
	if err != nil {
		return complain(1, err)
	}
	fmt.Println(result)
	if !result.Good() {
		return 1
	}
	return 0
}

func complain(status int, reason any) int {
	fmt.Fprintln(os.Stderr, "demo:", reason)
	return status
}
