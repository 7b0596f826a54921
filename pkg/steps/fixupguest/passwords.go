package fixupguest

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	passwordSecret = "/api/v1/namespaces/openshift-config/secrets/htpass-secret"
	passwordKey    = "htpasswd"
)

// setPasswords gives kubeadmin the instance's password and takes user developer
// away: everybody knows its password, which crc sets for people at their desks.
func (f *fixup) setPasswords(ctx context.Context) error {
	return f.within(ctx, func(api *guest.API) error {
		var seen corev1.Secret
		if err := api.Get(ctx, passwordSecret, &seen); err != nil {
			return err
		}
		present := string(seen.Data[passwordKey])
		wanted, err := setPassword(present, "kubeadmin", f.id.kubeadmin, f.HashCost)
		wanted = withoutUser(wanted, "developer")
		if err != nil || wanted == present {
			return err
		}
		return api.Patch(ctx, passwordSecret, seen.ObjectMeta, map[string]any{"data": map[string][]byte{passwordKey: []byte(wanted)}})
	})
}

func withoutUser(file, user string) string {
	rows := slices.DeleteFunc(strings.SplitAfter(file, "\n"), func(row string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(row), ":")
		return name == user
	})
	return strings.Join(rows, "")
}

// setPassword replaces a user's line unless its hash fits; other lines stay.
func setPassword(file, user, password string, cost int) (string, error) {
	rows, found := strings.Split(strings.TrimRight(file, "\n"), "\n"), -1
	for i, row := range rows {
		name, hash, _ := strings.Cut(strings.TrimSpace(row), ":")
		if name != user {
			continue
		}
		if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil {
			return file, nil
		}
		found = i
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		return "", step.InfraError("hash the password of %s: %w", user, err)
	}
	row := user + ":" + string(hash)
	if found >= 0 {
		rows[found] = row
	} else {
		rows = append(rows, row)
	}
	return strings.TrimLeft(strings.Join(rows, "\n"), "\n") + "\n", nil
}
