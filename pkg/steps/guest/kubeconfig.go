package guest

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// Kubeconfig is where the guest keeps the one that it came with.
const Kubeconfig = "/opt/kubeconfig"

// ParseKubeconfig reads one that has a current context. Its errors hold no content.
func ParseKubeconfig(raw []byte) (*v1.Config, error) {
	config := &v1.Config{}
	if err := yaml.Unmarshal(raw, config); err != nil {
		return nil, fmt.Errorf("%s of the guest is no kubeconfig", Kubeconfig)
	}
	if cluster, user := Current(config); cluster == nil || user == nil {
		return nil, fmt.Errorf("%s of the guest has no current context", Kubeconfig)
	}
	return config, nil
}

// Current is the cluster and the user of the current context, nil if missing.
func Current(config *v1.Config) (cluster *v1.Cluster, user *v1.AuthInfo) {
	for _, c := range config.Contexts {
		if c.Name != config.CurrentContext {
			continue
		}
		for i := range config.Clusters {
			if config.Clusters[i].Name == c.Context.Cluster {
				cluster = &config.Clusters[i].Cluster
			}
		}
		for i := range config.AuthInfos {
			if config.AuthInfos[i].Name == c.Context.AuthInfo {
				user = &config.AuthInfos[i].AuthInfo
			}
		}
	}
	return cluster, user
}
