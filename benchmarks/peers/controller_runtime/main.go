// Ochacafe's operator as a controller-runtime program, for `make bench`: typed and cached reads, managedFields stripped
// from the cache, the cache selected by label, 16 workers, no client-side limit, server-side apply only where a digest
// of what was applied differs, a status written only where it differs.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	owner   = client.FieldOwner("controller-runtime-peer")
	applied = "example.com/applied"
	part    = "example.com/part-of"
)

var groupVersion = schema.GroupVersion{Group: "ochacafe.oracle.com", Version: "v1alpha1"}

// Ochacafe is the resource, typed.
type Ochacafe struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size  int32  `json:"size"`
		Image string `json:"image"`
	} `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Status is the part of the status that this program fills.
type Status struct {
	Nodes              []string `json:"nodes"`
	ObservedGeneration int64    `json:"observedGeneration,omitempty"`
}

// OchacafeList is a list of them.
type OchacafeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Ochacafe `json:"items"`
}

// DeepCopyObject is what controller-gen would write.
func (in *Ochacafe) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Nodes = append([]string(nil), in.Status.Nodes...)
	return &out
}

// DeepCopyObject is what controller-gen would write.
func (in *OchacafeList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = make([]Ochacafe, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *(in.Items[i].DeepCopyObject().(*Ochacafe))
	}
	return &out
}

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cafe Ochacafe
	if err := r.Get(ctx, request.NamespacedName, &cafe); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wanted, digest, err := deployment(&cafe)
	if err != nil {
		return ctrl.Result{}, err
	}
	var present appsv1.Deployment
	err = r.Get(ctx, request.NamespacedName, &present)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	if err != nil || present.Annotations[applied] != digest {
		if err := r.Apply(ctx, wanted, owner, client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	status := Status{Nodes: []string{}, ObservedGeneration: cafe.Generation}
	if reflect.DeepEqual(status, cafe.Status) {
		return ctrl.Result{}, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return ctrl.Result{}, err
	}
	change := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	change.SetGroupVersionKind(groupVersion.WithKind("Ochacafe"))
	change.SetName(cafe.Name)
	change.SetNamespace(cafe.Namespace)
	return ctrl.Result{}, r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(change), owner, client.ForceOwnership)
}

func deployment(cafe *Ochacafe) (*appsapply.DeploymentApplyConfiguration, string, error) {
	chosen := map[string]string{"example.com/cafe": cafe.Name}
	wanted := appsapply.Deployment(cafe.Name, cafe.Namespace).
		WithLabels(map[string]string{part: "ochacafe", "example.com/cafe": cafe.Name}).
		WithOwnerReferences(metaapply.OwnerReference().
			WithAPIVersion(groupVersion.String()).WithKind("Ochacafe").WithName(cafe.Name).WithUID(cafe.UID).WithController(true)).
		WithSpec(appsapply.DeploymentSpec().
			WithReplicas(cafe.Spec.Size).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(chosen)).
			WithTemplate(coreapply.PodTemplateSpec().
				WithLabels(chosen).
				WithSpec(coreapply.PodSpec().
					WithContainers(coreapply.Container().
						WithName("cafe").WithImage(cafe.Spec.Image).
						WithPorts(coreapply.ContainerPort().WithContainerPort(80).WithProtocol("TCP"))))))
	content, err := json.Marshal(wanted)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:16])
	return wanted.WithAnnotations(map[string]string{applied: digest}), digest, nil
}

func main() {
	log.SetLogger(zap.New(zap.UseDevMode(false), zap.WriteTo(os.Stderr)))
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(namespace string) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(groupVersion, &Ochacafe{}, &OchacafeList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	config.UserAgent = "controller-runtime-peer"
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: ptr.To(3 * time.Second),
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&appsv1.Deployment{}: {Label: labels.SelectorFromSet(labels.Set{part: "ochacafe"})},
			},
		},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Ochacafe{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).
		Complete(&reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
