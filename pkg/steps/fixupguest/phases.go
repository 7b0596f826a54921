package fixupguest

import (
	"context"
	"time"
)

// phase is a part of the step that can be repeated at any time.
type phase struct {
	name string
	// limit is how long the phase may try.
	limit time.Duration
	run   func(*fixup, context.Context) error
	// hint says what to do when the limit is reached.
	hint string
}

const (
	hintSSH     = "look at the VM's console (virtctl console) and at the NetworkPolicies between the run's pods and the VM"
	hintGuest   = "see the guest's journal in the gathered ConfigMap"
	hintBundle  = "the bundle may be too old or too new for this version of guestcluster: try another crcVersion"
	hintCluster = "see the operators in the gathered ConfigMap; give the VM more memory or cores if it is starved"
)

// phases stand in the order in which they may happen. The admin CA is the last
// change of the cluster: with it the bundle's own kubeconfig dies.
var phases = []phase{
	{"wait for SSH", 10 * time.Minute, (*fixup).waitForSSH, hintSSH},
	{"find the guest's address", 2 * time.Minute, (*fixup).findAddress, hintGuest},
	{"lock user core", 2 * time.Minute, (*fixup).lockPassword, hintGuest},
	{"swap the SSH keys", 3 * time.Minute, (*fixup).swapKeys, hintGuest},
	{"switch self-sufficiency off", 2 * time.Minute, (*fixup).switchOff, hintGuest},
	{"grow the root file system", 5 * time.Minute, (*fixup).growRoot, hintGuest},
	{"configure dnsmasq", 3 * time.Minute, (*fixup).configureDNSMasq, hintGuest},
	{"configure the resolver", 18 * time.Minute, (*fixup).configureResolver, hintGuest},
	{"check names", 2 * time.Minute, (*fixup).checkNames, "dnsmasq of the guest does not answer: " + hintGuest},
	{"read certificate dates", 2 * time.Minute, (*fixup).readDates, hintGuest},
	{"start the kubelet", 5 * time.Minute, (*fixup).startKubelet, hintGuest},
	{"wait for the guest API", 10 * time.Minute, (*fixup).waitForAPI, "the guest's API server never answered: " + hintGuest},
	{"delete stale leases", 4 * time.Minute, (*fixup).deleteLeases, hintGuest},
	{"set the pull secret", 4 * time.Minute, (*fixup).setPullSecret, hintGuest},
	{"set the key of user core", 4 * time.Minute, (*fixup).setMachineKey, hintGuest},
	{"set the users", 4 * time.Minute, (*fixup).setPasswords, hintGuest},
	{"set the cluster ID", 4 * time.Minute, (*fixup).setClusterID, hintGuest},
	{"renew the certificates", 15 * time.Minute, (*fixup).waitForDates, hintBundle},
	{"serve the external name", 15 * time.Minute, (*fixup).serveExternalName, hintCluster},
	{"replace the admin CA", 6 * time.Minute, (*fixup).replaceAdminCA, hintGuest},
	{"wait for the node", 10 * time.Minute, (*fixup).waitForNode, hintCluster},
	{"wait for the node's pull secret", 7 * time.Minute, (*fixup).waitForNodePullSecret,
		"the machine config operator never wrote /var/lib/kubelet/config.json: usually a stale leader lease or its controller does not run"},
	{"wait for the operators", 25 * time.Minute, (*fixup).waitForOperators, hintCluster},
	{"prove", 5 * time.Minute, (*fixup).prove, hintGuest},
}
