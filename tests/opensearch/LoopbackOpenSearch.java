import java.io.IOException;
import org.codelibs.opensearch.runner.OpenSearchRunner;
import org.opensearch.http.HttpServerTransport;

/**
 * One OpenSearch node on free ports of 127.0.0.1, for as long as standard input is open.
 *
 * <p>It tells its port in one line, "listening PORT", and ends when its standard input does: with the process that
 * holds the other end of the pipe, however that died. Its files are below the folder given, and go with it.
 */
public final class LoopbackOpenSearch {
  public static void main(String[] args) throws Exception {
    OpenSearchRunner runner = new OpenSearchRunner();
    runner.onBuild(
        (number, settings) -> {
          settings.put("network.host", "127.0.0.1");
          settings.put("http.port", "0");
          settings.put("transport.port", "0");
          settings.putList("discovery.seed_hosts");
          // The runner's name for its only node.
          settings.putList("cluster.initial_cluster_manager_nodes", "Node 1");
          // A small heap is full of garbage most of the time, which is no reason to refuse a batch.
          settings.put("indices.breaker.total.use_real_memory", false);
          // A laptop's nearly full disk is not the tests' affair.
          settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
        });
    runner.build(OpenSearchRunner.newConfigs().numOfNode(1).basePath(args[0]).disableESLogger());
    runner.ensureYellow();
    HttpServerTransport http = runner.node().injector().getInstance(HttpServerTransport.class);
    System.out.println("listening " + http.boundAddress().publishAddress().getPort());
    try {
      while (System.in.read() >= 0) {}
    } catch (IOException gone) {
      // The pipe is broken: the same as its end.
    }
    runner.close();
    runner.clean();
    Runtime.getRuntime().halt(0);
  }
}
