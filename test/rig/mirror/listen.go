package mirror

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// Address is the mirror's own in the rig's network namespace: the node's has
// other servers on the usual ports.
const Address = "10.87.0.3"

// Interface is the bridge that gets the address.
const Interface = "node0"

// Serve gives this network namespace the address and serves http and https on
// it until the context ends. The certificate must be for Hosts.
func Serve(ctx context.Context, s *Server, certificate, key string) error {
	if err := run(ctx, "ip", "address", "replace", Address+"/32", "dev", Interface); err != nil {
		return err
	}
	plain := &http.Server{Addr: net.JoinHostPort(Address, "80"), Handler: s}
	secure := &http.Server{Addr: net.JoinHostPort(Address, "443"), Handler: s}
	context.AfterFunc(ctx, func() { _, _ = plain.Close(), secure.Close() })
	group := errgroup.Group{}
	group.Go(func() error { return ended(plain.ListenAndServe(), secure) })
	group.Go(func() error { return ended(secure.ListenAndServeTLS(certificate, key), plain) })
	return group.Wait()
}

// ended closes the other server when one fails.
func ended(err error, other *http.Server) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Join(fmt.Errorf("serve bundles: %w", err), other.Close())
}
