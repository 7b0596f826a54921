package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tekton-bundle:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("tekton-bundle", flag.ContinueOnError)
	file := flags.String("f", "-", "resolved YAML; - is standard input")
	insecure := flags.Bool("insecure", false, "push over plain HTTP")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("name one image to push to")
	}
	yaml, err := read(*file, stdin)
	if err != nil {
		return err
	}
	return push(ctx, yaml, flags.Arg(0), *insecure, stdout)
}

func read(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

func push(ctx context.Context, yaml []byte, image string, insecure bool, stdout io.Writer) error {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	ref, err := name.ParseReference(image, options...)
	if err != nil {
		return err
	}
	bundle, err := newBundle(yaml)
	if err != nil {
		return err
	}
	err = remote.Write(ref, bundle, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := bundle.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s@%s\n", ref.Context(), digest)
	return nil
}
