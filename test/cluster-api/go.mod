// Nothing of it is compiled: its CRDs are what the tests want.
module cluster-api-crds

go 1.25.0

require sigs.k8s.io/cluster-api v1.13.6
