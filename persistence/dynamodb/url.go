package dynamodb

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func init() {
	persistence.Register("dynamodb", func(ctx context.Context, u *url.URL) (driver.Driver, error) {
		d, err := openURL(ctx, u)
		if err != nil {
			return nil, err // not d: a nil *Driver is no nil interface
		}
		return d, nil
	})
}

// location is what a URL says.
type location struct {
	table, region, endpoint, profile string
	timeout                          time.Duration
}

// openURL makes a client from the SDK's default chain of configuration and credentials.
func openURL(ctx context.Context, u *url.URL) (*Driver, error) {
	loc, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	var opts []func(*config.LoadOptions) error
	if loc.region != "" {
		opts = append(opts, config.WithRegion(loc.region))
	}
	if loc.profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(loc.profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, unsupported("the configuration of the AWS SDK cannot be loaded: " + err.Error())
	}
	if cfg.Region == "" {
		return nil, unsupported("no region; write dynamodb://table?region=…, or set AWS_REGION")
	}
	var transport *http.Transport
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if loc.endpoint != "" {
			o.BaseEndpoint = &loc.endpoint
		}
		// The SDK's own client, which may know a bundle of certificates by now, keeps its
		// connections to itself; Close has to end them.
		if b, ok := o.HTTPClient.(*awshttp.BuildableClient); ok || o.HTTPClient == nil {
			if !ok {
				b = awshttp.NewBuildableClient()
			}
			transport = b.GetTransport()
			o.HTTPClient = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}}
		}
	})
	d, err := Open(ctx, Config{Client: client, Table: loc.table, Timeout: loc.timeout})
	if err != nil {
		return nil, err
	}
	if transport != nil {
		d.closeOwn = transport.CloseIdleConnections
	}
	return d, nil
}

// parseURL reads dynamodb://table?region=…&endpoint=….
func parseURL(u *url.URL) (location, error) {
	var loc location
	switch {
	case u.User != nil:
		return loc, unsupported("credentials do not belong into the URL; the AWS SDK finds them in the environment, in profiles and in roles")
	case u.Opaque != "" || u.Host == "":
		return loc, unsupported("the URL names no table; write dynamodb://table?region=…")
	case u.Path != "" && u.Path != "/":
		return loc, unsupported("the URL has a path; write dynamodb://table?region=…")
	case u.Fragment != "":
		return loc, unsupported("the URL has a '#'")
	}
	loc.table = u.Host
	return loc, driver.URLOptions(u, loc.set, unsupported)
}

func (loc *location) set(name, value string) error {
	if value == "" {
		return unsupported("the option " + strconv.Quote(name) + " has no value")
	}
	switch name {
	case "region":
		loc.region = value
	case "profile":
		loc.profile = value
	case "endpoint":
		e, err := url.Parse(value)
		if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || e.User != nil || e.RawQuery != "" {
			return unsupported("option endpoint: write for example http://127.0.0.1:8000")
		}
		loc.endpoint = value
	case "timeout":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return unsupported("option timeout: " + strconv.Quote(value) + " is not a duration over 0, for example 10s")
		}
		loc.timeout = d
	default:
		return unsupported("unknown option " + strconv.Quote(name) + " in the URL; there are endpoint, profile, region and timeout")
	}
	return nil
}
